import { ChevronsUpDown } from "lucide-react";
import { useMemo, useState } from "react";
import type { Json } from "../api/types";
import { compare, type DiffRow, fold, type Line, stableJson } from "../diff/lines";
import { plural } from "../format";
import { visible } from "../format/visible";
import "./Diff.css";

type DiffProps = { before: string; after: string; label?: string; beforeTitle?: string; afterTitle?: string };

/**
 * Two texts side by side, or stacked on a phone, with changed words highlighted. Changed lines
 * also have a plus or minus sign, so that color is not needed.
 */
export function Diff({ before, after, label = "Differences", beforeTitle = "Before", afterTitle = "After" }: DiffProps) {
  const rows = useMemo(() => compare(before, after), [before, after]);
  const shown = useMemo(() => fold(rows), [rows]);
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  return (
    <div className="Diff" role="table" aria-label={label}>
      <div className="Diff-row Diff-head" role="row">
        <div role="columnheader" className="Diff-title">{beforeTitle}</div>
        <div role="columnheader" className="Diff-title">{afterTitle}</div>
      </div>
      {shown.map((each, i) => {
        if (!each.fold) return <Row key={i} row={each.row} />;
        if (open.has(i)) return each.rows.map((row, n) => <Row key={`${i}.${n}`} row={row} />);
        return (
          <div key={i} role="row">
            <div role="cell">
              <button type="button" className="Diff-fold" onClick={() => setOpen(new Set([...open, i]))}>
                <ChevronsUpDown aria-hidden="true" /> {plural(each.rows.length, "unchanged line")}
              </button>
            </div>
          </div>
        );
      })}
      {rows.every((row) => row.kind === "same") && <p className="Diff-none">No differences.</p>}
    </div>
  );
}

type JsonDiffProps = Omit<DiffProps, "before" | "after"> & { before: Json | undefined; after: Json | undefined };

/** A diff of two JSON values, with their members sorted. */
export function JsonDiff({ before, after, ...rest }: JsonDiffProps) {
  const [left, right] = useMemo(() => [stableJson(before), stableJson(after)], [before, after]);
  return <Diff {...rest} before={left} after={right} />;
}

function Row({ row }: { row: DiffRow }) {
  return (
    <div className={`Diff-row Diff-${row.kind}`} role="row">
      <Side line={row.left} kind={row.kind === "same" ? "same" : "removed"} />
      <Side line={row.right} kind={row.kind === "same" ? "same" : "added"} />
    </div>
  );
}

function Side({ line, kind }: { line: Line | undefined; kind: "same" | "added" | "removed" }) {
  if (!line) return <div role="cell" className="Diff-side Diff-void" />;
  const Word = kind === "added" ? "ins" : "del";
  return (
    <div role="cell" className={`Diff-side Diff-side-${kind}`}>
      <span className="Diff-number" aria-hidden="true">{line.number}</span>
      <span className="Diff-mark">{kind === "added" ? "+" : kind === "removed" ? "−" : " "}</span>
      <code className="Diff-text">
        {line.parts.map((part, i) => (part.changed ? <Word key={i}>{visible(part.text)}</Word> : <span key={i}>{visible(part.text)}</span>))}
      </code>
    </div>
  );
}
