import type { ServerEvent, ServerState } from "../../api/types";

/** A time span in one state, which is "unknown" before the first state event. */
export type StateSpan = { state: ServerState | "unknown"; from: number; to: number; text?: string };
export type MarkKind = Exclude<ServerEvent["kind"], keyof typeof stateOf>;
export type TimelineMark = { kind: MarkKind; at: number; text?: string };
export type Timeline = { from: number; to: number; spans: StateSpan[]; marks: TimelineMark[] };

const stateOf = { start: "starting", up: "up", down: "down" } as const satisfies Partial<Record<ServerEvent["kind"], ServerState>>;
const minLength = 1000; // ms; gives a single event some width

/**
 * A server's history as state spans and marks, from the oldest known event until now.
 * Events are sorted newest first.
 */
export function timeline(events: ServerEvent[], now: number): Timeline | undefined {
  const known = events
    .map((event) => ({ ...event, time: Date.parse(event.at) }))
    .filter((event) => !Number.isNaN(event.time))
    .toSorted((a, b) => a.time - b.time);
  const first = known[0];
  if (!first) return undefined;
  const to = Math.max(now, first.time + minLength, known.at(-1)?.time ?? 0);
  const spans: StateSpan[] = [{ state: "unknown", from: first.time, to }];
  const marks: TimelineMark[] = [];
  for (const { kind, time, text } of known) {
    if (changesState(kind)) extend(spans, { state: stateOf[kind], from: time, to, ...(text && { text }) });
    else marks.push({ kind, at: time, ...(text && { text }) });
  }
  return { from: first.time, to, spans: spans.filter((each) => each.to > each.from), marks };
}

/** Reports whether an event changes the server's state. */
const changesState = (kind: ServerEvent["kind"]): kind is keyof typeof stateOf => kind in stateOf;

/**
 * Ends the last span where the next one starts, and merges equal states. A failed attempt to
 * start counts as downtime, because the yard reports repeated attempts as one event.
 */
function extend(spans: StateSpan[], next: StateSpan) {
  const last = spans.at(-1);
  if (last?.state === "starting" && next.state === "down") {
    spans.pop();
    extend(spans, { ...next, from: last.from });
    return;
  }
  if (last?.state === next.state) {
    last.to = next.to;
    return;
  }
  if (last) last.to = next.from;
  spans.push(next);
}

/** The milliseconds during which the state is known, and during which the server was up. */
export function uptime({ spans }: Timeline): { known: number; up: number } {
  const sum = (list: StateSpan[]) => list.reduce((all, each) => all + each.to - each.from, 0);
  return { known: sum(spans.filter((each) => each.state !== "unknown")), up: sum(spans.filter((each) => each.state === "up")) };
}
