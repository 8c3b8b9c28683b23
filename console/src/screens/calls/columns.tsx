import { useEffect, useState } from "react";
import { CodeStatus, Status } from "../../components/Badge";
import type { Column } from "../../components/Table";
import { Time } from "../../components/Time";
import { bytes, duration, lastedFor, price } from "../../format";
import { visible } from "../../format/visible";
import type { CallSearch } from "./Filters";
import type { Row } from "./stream";

/** The call list's columns. Clicking a caller filters by that caller. */
export function columnsOf(narrow: (more: CallSearch) => void): Column<Row>[] {
  return [
    { id: "at", header: "When", min: 92, cell: (row) => <When row={row} /> },
    { id: "tool", header: "Tool", min: 190, grow: 3, cell: (row) => <ToolName row={row} /> },
    { id: "code", header: "Outcome", min: 150, cell: (row) => (row.running ? <Status tone="info">Running</Status> : <CodeStatus code={row.code} />) },
    { id: "gate", header: "Gate", min: 104, grow: 1, drop: 3, cell: (row) => <GateName row={row} /> },
    {
      id: "caller",
      header: "Caller",
      min: 120,
      grow: 1,
      drop: 1,
      cell: ({ caller }) => <button type="button" className="Calls-pick cut" title={`Show only calls by ${caller}`} onClick={() => narrow({ caller })}>{caller}</button>,
    },
    { id: "took", header: "Duration", min: 124, align: "right", cell: (row) => <Duration row={row} /> },
    { id: "price", header: "Price", min: 84, drop: 2, align: "right", cell: (row) => (row.running ? <Dash /> : <Price usd={row.priceUsd} />) },
    { id: "size", header: "In / out", min: 128, drop: 4, align: "right", cell: (row) => (row.running ? <Dash /> : <Sizes row={row} />) },
  ];
}

const Dash = () => <span className="faint">—</span>;

function When({ row }: { row: Row }) {
  return (
    <>
      <Time at={row.at} />
      <span className="unseen">, call to {row.tool}</span>
    </>
  );
}

function ToolName({ row }: { row: Row }) {
  const name = visible([row.server, row.tool].filter(Boolean).join(" / "));
  return (
    <span className="cut Calls-tool" title={row.parent ? `${name}, called by another tool` : name}>
      {row.parent && <span className="faint" aria-hidden="true">↳ </span>}
      {row.server && <span className="faint">{visible(row.server)} / </span>}
      {visible(row.tool)}
    </span>
  );
}

function GateName({ row }: { row: Row }) {
  return <span className="cut" title={`Gate ${row.gate}, ${row.mode}`}>{row.gate} <span className="faint">{row.mode}</span></span>;
}

function Price({ usd }: { usd: string }) {
  const text = price(usd);
  return <span className={text === "free" ? "faint" : undefined}>{text}</span>;
}

function Sizes({ row }: { row: Row }) {
  return <span className="soft" title={`${bytes(row.argsBytes)} in arguments, ${bytes(row.resultBytes)} in the result`}>{bytes(row.argsBytes)} / {bytes(row.resultBytes)}</span>;
}

/** The bar length is the square root of the duration, so that fast calls stay distinguishable. */
function Duration({ row }: { row: Row }) {
  return (
    <span className="Calls-took">
      <span className="Calls-took-track" aria-hidden="true">
        {!row.running && <span className={row.code === "OK" ? "Calls-took-bar" : "Calls-took-bar Calls-took-bad"} style={{ "--ns": row.elapsedNs }} />}
      </span>
      {row.running ? <RunningTime since={row.at} /> : <span>{duration(row.elapsedNs)}</span>}
    </span>
  );
}

/** A live timer. */
function RunningTime({ since }: { since: string }) {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const whole = Math.max(0, Math.floor((now - Date.parse(since)) / 1000));
  return <span className="soft">{whole < 1 ? "…" : lastedFor(since, Date.parse(since) + whole * 1000)}</span>;
}
