import { Link } from "@tanstack/react-router";
import type { QueryDetail } from "../../api/types";
import { CodeStatus } from "../../components/Badge";
import { count, duration, plural } from "../../format";
import { visible } from "../../format/visible";
import { Track } from "../call/Path";
import { lengthOf, type WaterfallRow, waterfallOf } from "./waterfall";

/** A query's turns and calls on a time axis. */
export function Waterfall({ query }: { query: QueryDetail }) {
  const rows = waterfallOf(query);
  const totalNs = lengthOf(query, rows);
  const running = query.outcome === "running";
  if (rows.length === 0) return <p className="faint">{running ? "Waiting for the model's first turn." : "No turns were recorded."}</p>;
  const agents = new Set(query.turns.map(({ agent }) => agent)).size;
  return (
    <>
      <div className="Path-axis Query-axis faint small" aria-hidden="true"><span>0</span><span>{duration(totalNs / 2)}</span><span>{duration(totalNs)}</span></div>
      <ol className="Path" aria-label="Turns and calls">
        {rows.map((row) => (
          <li key={row.kind === "turn" ? row.number : row.evidence.id}>
            <div className="Path-line Query-line">
              <span className="Path-about">{row.kind === "turn" ? <TurnName row={row} named={agents > 1} /> : <CallName row={row} />}</span>
              <Track startNs={row.startNs} endNs={row.endNs} totalNs={totalNs} tone={toneOf(row)} />
              <span className="Path-time">{duration(row.endNs - row.startNs)}</span>
            </div>
          </li>
        ))}
      </ol>
      {running && <p className="soft small" role="status">Running. The list is updated as the query continues.</p>}
    </>
  );
}

function toneOf(row: WaterfallRow): string {
  if (row.kind === "turn") return row.turn.error ? "bad" : "wait";
  return row.evidence.ok ? "run" : "bad";
}

function TurnName({ row, named }: { row: WaterfallRow & { kind: "turn" }; named: boolean }) {
  const { turn, number } = row;
  const usage = `${count(turn.usage.input)} tokens in, ${count(turn.usage.output)} out`;
  return (
    <>
      <span className="strong">Turn {number}{named && <span className="soft"> of {turn.agent}</span>}</span>
      <span className="Path-meaning wrap-anywhere">{turn.error ? `failed: ${turn.error}` : turn.calls > 0 ? `${plural(turn.calls, "call")}; ${usage}` : usage}</span>
    </>
  );
}

function CallName({ row }: { row: WaterfallRow & { kind: "call" } }) {
  const { evidence } = row;
  const name = visible([evidence.server, evidence.tool].filter(Boolean).join(" / "));
  return (
    <span className="Query-call">
      <a href={`#${evidence.id}`} className="Query-mark" aria-label={`Evidence ${evidence.id}`}>{evidence.id}</a>
      {evidence.call ? <Link to="/calls/$id" params={{ id: evidence.call }} className="cut" title={name}>{name}</Link> : <span className="cut" title={name}>{name}</span>}
      {!evidence.ok && <CodeStatus code={evidence.error ?? "FAILED"} />}
    </span>
  );
}
