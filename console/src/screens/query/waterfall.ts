// A query's turns and calls on one time axis.
import type { Evidence, QueryDetail } from "../../api/types";

export type Turn = QueryDetail["turns"][number];

export type WaterfallRow = { startNs: number; endNs: number } & ({ kind: "turn"; number: number; turn: Turn } | { kind: "call"; evidence: Evidence });

/** A query's turns and calls, sorted by start. A turn precedes the calls that it requested. */
export function waterfallOf({ turns, spans, answer }: Pick<QueryDetail, "turns" | "spans" | "answer">): WaterfallRow[] {
  const evidence = new Map(answer?.evidence.map((each) => [each.id, each]));
  const rows: WaterfallRow[] = turns.map((turn, i) => ({ kind: "turn", number: i + 1, turn, startNs: turn.startNs, endNs: turn.startNs + turn.elapsedNs }));
  for (const span of spans) {
    const call = evidence.get(span.evidence);
    if (call) rows.push({ kind: "call", evidence: call, startNs: span.startNs, endNs: span.startNs + span.elapsedNs });
  }
  return rows.toSorted((a, b) => a.startNs - b.startNs || (a.kind === b.kind ? 0 : a.kind === "turn" ? -1 : 1));
}

/** The length of the time axis: the whole query, or up to its last recorded event. */
export function lengthOf(query: Pick<QueryDetail, "durationMs">, rows: WaterfallRow[]): number {
  return Math.max(1, query.durationMs * 1e6, ...rows.map((row) => row.endNs));
}

const mark = /\[(e\d{1,9}(?:\s*,\s*e\d{1,9})*)\]/g;

export type Part = { text: string } | { evidence: string };

/** Splits an answer into text and citations of existing evidence. */
export function partsOf(answer: string, known: ReadonlySet<string>): Part[] {
  const parts: Part[] = [];
  let end = 0;
  for (const match of answer.matchAll(mark)) {
    const ids = (match[1] ?? "").split(",").map((id) => id.trim());
    if (!ids.every((id) => known.has(id))) continue;
    if (match.index > end) parts.push({ text: answer.slice(end, match.index) });
    parts.push(...ids.map((id) => ({ evidence: id })));
    end = match.index + match[0].length;
  }
  if (end < answer.length) parts.push({ text: answer.slice(end) });
  return parts;
}
