import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { queries } from "../api/queries";
import type { Json, QueryDetail } from "../api/types";
import { Card } from "../components/Card";
import { JsonView } from "../components/JsonView";
import { Page } from "../components/Page";
import { ErrorState, Skeleton } from "../components/States";
import { Time } from "../components/Time";
import { absolute, count, duration, money, plural, price } from "../format";
import { visible } from "../format/visible";
import { useCanView } from "../session";
import { EvidenceList } from "./query/EvidenceList";
import { meaningOfStop, OutcomeStatus } from "./query/outcome";
import { Waterfall } from "./query/Waterfall";
import { partsOf } from "./query/waterfall";
import "./Call.css";
import "./Query.css";

const toList = <Link to="/queries">Queries</Link>;

/** One query: its answer, its turns and calls, and its evidence. A running query is updated. */
export default function Query() {
  const { id } = useParams({ from: "/queries/$id" });
  const { data: query, error, refetch } = useQuery(queries.agentQuery(id));
  const all = useCanView();
  if (!query) {
    return (
      <Page title="Query" above={toList}>
        <Card>{error ? <ErrorState error={error} onRetry={() => void refetch()} /> : <Skeleton lines={8} />}</Card>
      </Page>
    );
  }
  const evidence = query.answer?.evidence ?? [];
  return (
    <Page title={`Query to ${query.agent}`} above={toList} beside={<OutcomeStatus outcome={query.outcome} {...(query.error && { error: query.error })} />}>
      <Card title="Question"><p className="Query-text wrap-anywhere">{visible(query.text)}</p></Card>
      <Answer query={query} />
      <div className="Call-grid">
        <Card title="Turns and calls" description={`${duration(query.durationMs * 1e6)} in total. Amber: model turns. Teal: calls.`}><Waterfall query={query} /></Card>
        <Card title="Details"><Facts query={query} all={all} /></Card>
      </div>
      <Card title="Evidence" description={`${plural(evidence.length, "call")}, as the yard recorded them.`}><EvidenceList evidence={evidence} /></Card>
    </Page>
  );
}

function Answer({ query: { answer, outcome, error } }: { query: QueryDetail }) {
  if (outcome === "running") return null;
  if (outcome === "failed" || outcome === "lost") {
    return <section className="Call-failure" aria-label="Error"><p>{error && <code className="strong">{error}</code>} The query did not end with an answer. Nothing was charged.</p></section>;
  }
  const known = new Set(answer?.evidence.map(({ id }) => id));
  return (
    <Card title="Answer">
      {answer?.answer && (
        <p className="Query-text wrap-anywhere">
          {partsOf(answer.answer, known).map((part, i) => ("text" in part ? visible(part.text) : <a key={i} href={`#${part.evidence}`} className="Query-mark" aria-label={`Evidence ${part.evidence}`}>{part.evidence}</a>))}
        </p>
      )}
      {answer?.data !== undefined && <JsonView value={answer.data as Json} label="Answer" open={3} />}
      {!answer?.answer && answer?.data === undefined && <p className="soft">{outcome === "answer" ? "The caller requested only the evidence." : "The model wrote no answer."}</p>}
      {(answer?.unsupported.length ?? 0) > 0 && <p className="warn small">The answer cites evidence that does not exist: {answer?.unsupported.join(", ")}</p>}
      {(answer?.missing.length ?? 0) > 0 && <p className="warn small wrap-anywhere">The model requested tools that do not exist: {visible(answer?.missing.join(", ") ?? "")}</p>}
    </Card>
  );
}

/** The details of a query. If all is false, links to pages for viewers are plain text. */
function Facts({ query, all }: { query: QueryDetail; all: boolean }) {
  const { usage } = query;
  const models = [...new Set(query.turns.map(({ model }) => model))].join(", ");
  return (
    <dl className="Call-facts">
      <Fact name="When"><Time at={query.at} /><div className="faint small">{absolute(query.at)}</div></Fact>
      {query.answer?.asOf && isPast(query.answer.asOf, query.at) && <Fact name="As of">{absolute(query.answer.asOf)}</Fact>}
      <Fact name="Ended">{query.outcome === "running" || query.outcome === "lost" ? "—" : meaningOfStop(usage.stop)}</Fact>
      <Fact name="Price">{price(query.priceUsd)}</Fact>
      {query.modelCostUsd !== undefined && (
        <Fact name="Cost">
          {money(query.modelCostUsd)} for the model
          <div className="faint small">Its calls would cost {money(query.toolCostUsd)} at an execute gate.</div>
        </Fact>
      )}
      <Fact name="Tokens">
        {count(usage.inputTokens)} in, {count(usage.outputTokens)} out
        {usage.cachedTokens > 0 && <div className="faint small">{count(usage.cachedTokens)} from a cache</div>}
        {usage.estimated && <div className="faint small">estimated</div>}
      </Fact>
      <Fact name="Used">{plural(usage.turns, "turn")}, {plural(usage.calls, "call")}{usage.failed > 0 && <span className="bad"> ({count(usage.failed)} failed)</span>}</Fact>
      {usage.tools > 0 && <Fact name="Offered">{plural(usage.tools, "tool")}</Fact>}
      {models && <Fact name="Model"><span className="mono">{visible(models)}</span></Fact>}
      <Fact name="Caller">{visible(query.caller)}</Fact>
      <Fact name="Account">{visible(query.account)}</Fact>
      <Fact name="Gate">{all ? <Link to="/gates" search={{ gate: query.gate }}>{query.gate}</Link> : query.gate}</Fact>
      <Fact name="Call"><Link to="/calls/$id" params={{ id: query.id }} className="mono">{query.id}</Link></Fact>
    </dl>
  );
}

/** Reports whether an as-of time was set. If not, it is the start of the query. */
const isPast = (asOf: string, at: string) => Date.parse(at) - Date.parse(asOf) > 1000;

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd className="wrap-anywhere">{children}</dd>
    </>
  );
}
