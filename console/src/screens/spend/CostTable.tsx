import { useMemo } from "react";
import type { CostRow } from "../../api/types";
import { EmptyState } from "../../components/States";
import { type Column, type RowLink, Table } from "../../components/Table";
import { count, money, moneyShare, parseMoney, percent } from "../../format";
import { visible } from "../../format/visible";
import { largestOf } from "./totals";

type CostTableProps = {
  label: string;
  header: string;
  rows: CostRow[] | undefined;
  error: unknown;
  onRetry: () => void;
  link: (row: CostRow) => RowLink | undefined;
};

/** A table of costs with exact sums. */
export function CostTable({ label, header, rows, error, onRetry, link }: CostTableProps) {
  const most = useMemo(() => largestOf((rows ?? []).map((row) => row.usd)), [rows]);
  const busiest = useMemo(() => (rows ?? []).reduce((max, row) => Math.max(max, row.calls), 1), [rows]);
  const columns = useMemo(() => columnsOf(header, most, busiest), [header, most, busiest]);
  return (
    <Table
      key={most === "0" ? "calls" : "usd"}
      label={label}
      columns={columns}
      rows={rows}
      rowKey={keyOf}
      rowLink={link}
      error={error}
      onRetry={onRetry}
      sort={{ id: most === "0" ? "calls" : "usd", desc: true }}
      empty={<EmptyState title="No calls in this period" />}
    />
  );
}

function columnsOf(header: string, most: string, busiest: number): Column<CostRow>[] {
  const free = most === "0";
  return [
    { id: "name", header, min: 160, grow: 3, value: nameOf, cell: (row) => <Name row={row} /> },
    { id: "bar", header: "Share", min: 120, grow: 2, drop: 3, wideOnly: true, cell: (row) => <Bar share={free ? row.calls / busiest : moneyShare(row.usd, most)} /> },
    { id: "usd", header: "Spent", min: 112, align: "right", value: (row) => parseMoney(row.usd), cell: (row) => money(row.usd) },
    { id: "calls", header: "Calls", min: 80, align: "right", value: (row) => row.calls, cell: (row) => count(row.calls) },
    { id: "charged", header: "Paid calls", min: 104, drop: 2, align: "right", value: (row) => row.charged, cell: (row) => <span className="soft">{count(row.charged)}</span> },
    { id: "errors", header: "Failed", min: 84, drop: 1, align: "right", value: (row) => row.errors, cell: (row) => <Failed row={row} /> },
  ];
}

const keyOf = (row: CostRow) => [row.account, row.server, row.tool].join(" ");
const nameOf = (row: CostRow) => visible(row.tool !== undefined ? [row.server, row.tool].filter(Boolean).join(" / ") : (row.account ?? ""));

function Name({ row }: { row: CostRow }) {
  const name = nameOf(row);
  return <span className={name ? "cut" : "cut faint"} title={name}>{name || "no account"}</span>;
}

function Bar({ share }: { share: number }) {
  return <span className="Spend-bar" aria-hidden="true">{share > 0 && <span style={{ width: `${share * 100}%` }} />}</span>;
}

function Failed({ row }: { row: CostRow }) {
  if (row.errors === 0) return <span className="faint">0</span>;
  return <span className="bad" title={`${percent(row.errors, row.calls)} of its calls`}>{count(row.errors)}</span>;
}
