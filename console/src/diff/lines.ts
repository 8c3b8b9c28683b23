import { diffLines, diffWordsWithSpace } from "diff";
import type { Json } from "../api/types";

export type Part = { text: string; changed: boolean };
export type Line = { number: number; parts: Part[] };
/** One row of a diff: a line from the left text, the right text, or both. */
export type DiffRow = { kind: "same" | "changed" | "added" | "removed"; left?: Line; right?: Line };

const diffTimeout = 800; // in ms; after that, all lines count as changed
const maxLineLength = 4000; // in characters; longer lines are not compared by word

/** JSON with sorted members. */
export function stableJson(value: Json | undefined): string {
  if (value === undefined) return "";
  return JSON.stringify(sorted(value), null, 2);
}

function sorted(value: Json): Json {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const names = Object.keys(value).sort();
  return Object.fromEntries(names.map((name) => [name, sorted(value[name] ?? null)]));
}

/** Compares two texts by line, and changed lines by word. */
export function compare(before: string, after: string): DiffRow[] {
  const pieces = diffLines(ended(before), ended(after), { timeout: diffTimeout }) ?? [
    { value: before, removed: true, added: false },
    { value: after, removed: false, added: true },
  ];
  const rows: DiffRow[] = [];
  let removed: string[] = [];
  const at = { left: 1, right: 1 };
  for (const piece of pieces) {
    const lines = split(piece.value);
    if (piece.removed) {
      removed = lines;
      continue;
    }
    if (piece.added) {
      rows.push(...pair(removed, lines, at));
    } else {
      rows.push(...pair(removed, [], at), ...lines.map((line) => same(line, at)));
    }
    removed = [];
  }
  rows.push(...pair(removed, [], at));
  return rows;
}

type Counters = { left: number; right: number };

function same(line: string, at: Counters): DiffRow {
  const parts = [{ text: line, changed: false }];
  return { kind: "same", left: { number: at.left++, parts }, right: { number: at.right++, parts } };
}

function pair(removed: string[], added: string[], at: Counters): DiffRow[] {
  return Array.from({ length: Math.max(removed.length, added.length) }, (_, i): DiffRow => {
    const [old, now] = [removed[i], added[i]];
    if (old === undefined) return { kind: "added", right: { number: at.right++, parts: [{ text: now ?? "", changed: false }] } };
    if (now === undefined) return { kind: "removed", left: { number: at.left++, parts: [{ text: old, changed: false }] } };
    const [left, right] = words(old, now);
    return { kind: "changed", left: { number: at.left++, parts: left }, right: { number: at.right++, parts: right } };
  });
}

function words(before: string, after: string): [Part[], Part[]] {
  if (before.length > maxLineLength || after.length > maxLineLength) {
    return [[{ text: before, changed: true }], [{ text: after, changed: true }]];
  }
  const pieces = diffWordsWithSpace(before, after);
  const left = pieces.filter((piece) => !piece.added).map((piece) => ({ text: piece.value, changed: piece.removed }));
  const right = pieces.filter((piece) => !piece.removed).map((piece) => ({ text: piece.value, changed: piece.added }));
  return [left, right];
}

function ended(text: string): string {
  return text === "" || text.endsWith("\n") ? text : text + "\n";
}

function split(text: string): string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** The rows to show. Long runs of unchanged lines are folded. */
export type Shown = { fold: false; row: DiffRow } | { fold: true; rows: DiffRow[] };

export function fold(rows: DiffRow[], around = 3): Shown[] {
  const keep = new Set<number>();
  rows.forEach((row, i) => {
    if (row.kind === "same") return;
    for (let near = i - around; near <= i + around; near++) keep.add(near);
  });
  const shown: Shown[] = [];
  for (const [i, row] of rows.entries()) {
    if (keep.has(i)) {
      shown.push({ fold: false, row });
      continue;
    }
    const last = shown.at(-1);
    if (last?.fold) last.rows.push(row);
    else shown.push({ fold: true, rows: [row] });
  }
  return shown.flatMap((each) => (each.fold && each.rows.length <= 2 ? each.rows.map((row): Shown => ({ fold: false, row })) : [each]));
}
