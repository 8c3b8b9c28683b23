import type { ServerEvent, ServerState } from "../../api/types";

/** A stretch of time in one state; "unknown" before the first event that tells. */
export type StateSpan = { state: ServerState | "unknown"; from: number; to: number; text?: string };
export type MarkKind = Exclude<ServerEvent["kind"], keyof typeof stateOf>;
export type TimelineMark = { kind: MarkKind; at: number; text?: string };
export type Timeline = { from: number; to: number; spans: StateSpan[]; marks: TimelineMark[] };

const stateOf = { start: "starting", up: "up", down: "down" } as const satisfies Partial<Record<ServerEvent["kind"], ServerState>>;
const minLength = 1000; // ms that a picture covers, so that a single event has room

/**
 * What became of a server as stretches of time and marks between them, from the oldest event
 * that is known until now. Events come newest first.
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

/** Whether a server is in another state since such an event. */
const changesState = (kind: ServerEvent["kind"]): kind is keyof typeof stateOf => kind in stateOf;

/**
 * Ends the last stretch where the next begins; the same state again goes on. An attempt that
 * failed was time in which the server was down, and the yard tells of several as of one.
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

/** For how long, in milliseconds, the state of a server is known, and how long of that it was up. */
export function uptime({ spans }: Timeline): { known: number; up: number } {
  const sum = (list: StateSpan[]) => list.reduce((all, each) => all + each.to - each.from, 0);
  return { known: sum(spans.filter((each) => each.state !== "unknown")), up: sum(spans.filter((each) => each.state === "up")) };
}
