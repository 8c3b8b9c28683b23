import { TriangleAlert } from "lucide-react";
import type { Json, PendingTool } from "../../api/types";
import { Code } from "../../components/Code";
import { Diff, JsonDiff } from "../../components/Diff";
import { stableJson } from "../../diff/lines";
import { count } from "../../format";
import { visible } from "../../format/visible";
import { preview, parts } from "./review";
import { risks } from "./risks";
import "./DefinitionView.css";

/** A tool's approved and current definitions, with the risks of the change. */
export function DefinitionView({ pending }: { pending: PendingTool }) {
  const { kind, approved, offered, refused } = pending;
  return (
    <div className="stack">
      {refused && <Warning text={`Cannot be approved: ${visible(refused)}`} />}
      <Risks pending={pending} />
      {kind === "changed" && <Changed pending={pending} />}
      {kind === "new" && offered !== undefined && <Whole definition={offered} label="Current definition" />}
      {kind === "gone" && (
        <>
          <p className="soft">The server no longer provides this tool. Approved definition:</p>
          {approved !== undefined && <Whole definition={approved} label="Approved definition" />}
        </>
      )}
      {kind === "refused" && approved !== undefined && (
        <>
          <p className="soft">Approved definition:</p>
          <Whole definition={approved} label="Approved definition" />
        </>
      )}
      {kind === "refused" && offered !== undefined && <Whole definition={offered} label="Current definition" />}
    </div>
  );
}

function Risks({ pending }: { pending: PendingTool }) {
  const found = risks(pending);
  if (found.length === 0) return null;
  return (
    <section className="stack-s" aria-label="Risks">
      <h3 className="DefinitionView-part">Risks</h3>
      <ul className="DefinitionView-risks">
        {found.map(({ title, detail }) => (
          <li key={title} className="DefinitionView-warning wrap-anywhere">
            <TriangleAlert aria-hidden="true" />
            <span><strong>{title}</strong> <span className="DefinitionView-detail">{detail}</span></span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Warning({ text }: { text: string }) {
  return (
    <p className="DefinitionView-warning wrap-anywhere">
      <TriangleAlert aria-hidden="true" />
      <span>{text}</span>
    </p>
  );
}

function Changed({ pending }: { pending: PendingTool }) {
  const [before, after] = [parts(pending.approved), parts(pending.offered)];
  const titles = { beforeTitle: "Approved", afterTitle: "Current" };
  return (
    <>
      <Changes pending={pending} />
      <section className="stack-s">
        <h3 className="DefinitionView-part">Description</h3>
        {before.text === after.text ? <Description text={after.text} /> : <Diff label="Description" {...titles} before={before.text} after={after.text} />}
      </section>
      <section className="stack-s">
        <h3 className="DefinitionView-part">Full definition</h3>
        {before.text === after.text && stableJson(before.rest) === stableJson(after.rest) ? (
          <>
            <Warning text="The definitions differ only in digits that exceed the precision of numbers in the browser. The exact text is shown." />
            <Diff label="Definition as text" {...titles} before={pending.approvedText ?? ""} after={pending.offeredText ?? ""} />
          </>
        ) : (
          <JsonDiff label="Full definition" {...titles} before={before.rest} after={after.rest} />
        )}
      </section>
    </>
  );
}

const maxChanges = 30; // number of changes to list

function Changes({ pending: { changes = [] } }: { pending: PendingTool }) {
  if (changes.length === 0) return null;
  return (
    <section className="stack-s">
      <h3 className="DefinitionView-part">Changes</h3>
      <ul className="DefinitionView-changes">
        {changes.slice(0, maxChanges).map((change) => (
          <li key={change.path}>
            <code className="wrap-anywhere strong">{visible(change.path || "(whole definition)")}</code>
            <span className="DefinitionView-values">
              {change.old !== undefined && <del><span className="unseen">was </span>{preview(change.old)}</del>}
              {change.new !== undefined && <ins><span className="unseen">is now </span>{preview(change.new)}</ins>}
              {change.old === undefined && <span className="faint">added</span>}
              {change.new === undefined && <span className="faint">removed</span>}
            </span>
          </li>
        ))}
      </ul>
      {changes.length > maxChanges && <p className="faint">{count(changes.length - maxChanges)} more. The diff below shows all of them.</p>}
    </section>
  );
}

function Whole({ definition, label }: { definition: Json; label: string }) {
  const { text, rest } = parts(definition);
  return (
    <>
      <section className="stack-s">
        <h3 className="DefinitionView-part">Description</h3>
        <Description text={text} />
      </section>
      <section className="stack-s">
        <h3 className="DefinitionView-part">Full definition</h3>
        <Code text={stableJson(rest)} label={label} wrap />
      </section>
    </>
  );
}

function Description({ text }: { text: string }) {
  if (text === "") return <p className="faint">No description.</p>;
  return <p className="DefinitionView-text">{visible(text)}</p>;
}
