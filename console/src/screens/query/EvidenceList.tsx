import { Link } from "@tanstack/react-router";
import type { Evidence, Json } from "../../api/types";
import { Badge, CodeStatus } from "../../components/Badge";
import { Code } from "../../components/Code";
import { JsonView } from "../../components/JsonView";
import { absolute, bytes } from "../../format";
import { visible } from "../../format/visible";

/** The calls that an answer is based on, as the yard recorded them. */
export function EvidenceList({ evidence }: { evidence: Evidence[] }) {
  if (evidence.length === 0) return <p className="soft">No calls were made.</p>;
  return (
    <ol className="Query-evidence" aria-label="Evidence">
      {evidence.map((each) => <li key={each.id} id={each.id} tabIndex={-1}><OneEvidence evidence={each} /></li>)}
    </ol>
  );
}

function OneEvidence({ evidence }: { evidence: Evidence }) {
  const name = visible([evidence.server, evidence.tool].filter(Boolean).join(" / "));
  return (
    <>
      <h3 className="row-wrap">
        <span className="Query-mark">{evidence.id}</span>
        <span className="wrap-anywhere">{name}</span>
        {evidence.ok ? evidence.cited && <Badge tone="good" title="The answer cites this evidence.">cited</Badge> : <CodeStatus code={evidence.error ?? "FAILED"} />}
      </h3>
      <JsonView value={evidence.arguments as Json} label={`Arguments for ${evidence.id}`} open={2} />
      {evidence.excerpt !== "" && <Code text={evidence.excerpt} label={`Result of ${evidence.id}`} wrap maxHeight={240} />}
      <p className="soft small wrap-anywhere">
        {absolute(evidence.at)}, {bytes(evidence.bytes)}, SHA-256 <code title={evidence.sha256}>{evidence.sha256.slice(0, 12)}</code>
        {evidence.call && <>, <Link to="/calls/$id" params={{ id: evidence.call }}>call</Link></>}
      </p>
    </>
  );
}
