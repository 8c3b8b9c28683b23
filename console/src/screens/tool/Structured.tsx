import { useMemo, useState } from "react";
import { isObject, type Json } from "../../api/json";
import { JsonView } from "../../components/JsonView";
import { Segments } from "../../components/Segments";
import { count } from "../../format";
import { visible } from "../../format/visible";
import { type Tabular, tabular } from "./tabular";

/** Structured content as a tree, and as a table if it is a list of objects. */
export function Structured({ value, label }: { value: Json; label: string }) {
  const table = useMemo(() => tabular(value), [value]);
  const [view, setView] = useState<"table" | "tree">("table");
  if (!table) return <JsonView value={value} label={label} open={3} />;
  return (
    <div className="stack-s">
      <div><Segments label="View" value={view} items={[{ value: "table", label: "Table", count: count(table.total) }, { value: "tree", label: "Tree" }]} onChange={setView} /></div>
      {view === "tree" ? <JsonView value={value} label={label} open={3} /> : <DataTable table={table} label={label} rest={table.path === "" || !isObject(value) ? undefined : value} />}
    </div>
  );
}

function DataTable({ table, label, rest }: { table: Tabular; label: string; rest: Record<string, Json> | undefined }) {
  const others = rest && Object.fromEntries(Object.entries(rest).filter(([name]) => name !== table.path));
  return (
    <>
      {others && Object.keys(others).length > 0 && <JsonView value={others} label={`${label}, other properties`} open={1} />}
      <div className="DataTable" tabIndex={0} role="region" aria-label={`${label} as a table`}>
        <table>
          <thead><tr>{table.columns.map((column) => <th key={column} scope="col">{visible(column)}</th>)}</tr></thead>
          <tbody>
            {table.rows.map((row, i) => (
              <tr key={i}>{table.columns.map((column) => <td key={column} className={typeof row[column] === "number" ? "right" : undefined}><Cell value={row[column]} /></td>)}</tr>
            ))}
          </tbody>
        </table>
      </div>
      {table.total > table.rows.length && <p className="faint small">The first {count(table.rows.length)} of {count(table.total)} rows. The tree view has all of them.</p>}
    </>
  );
}

const longest = 120;

function Cell({ value }: { value: Json | undefined }) {
  if (value === undefined) return <span className="faint">—</span>;
  if (value === null || typeof value === "boolean") return <span className="faint">{String(value)}</span>;
  if (typeof value === "number") return value;
  const text = visible(typeof value === "string" ? value : JSON.stringify(value));
  return <span title={text.length > longest ? text.slice(0, 2000) : undefined}>{text.length > longest ? `${text.slice(0, longest)}…` : text}</span>;
}
