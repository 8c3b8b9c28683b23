import type { Limit } from "../../api/types";

/** What is limited: a server, or a tool of one. */
export function nameOf({ kind, server, tool, name }: Limit): string {
  return kind === "tool" && tool ? [server, tool].filter(Boolean).join(" / ") : (server ?? name);
}

/** How full a limit is, from 0 to 1 or more: the fuller of what it counts. */
export function pressureOf({ used = 0, perMinute, running = 0, concurrency }: Limit): number {
  return Math.max(perMinute ? used / perMinute : 0, concurrency ? running / concurrency : 0);
}

/** Whether the next call has to wait. */
export function isFull(limit: Limit): boolean {
  return limit.waiting > 0 || pressureOf(limit) >= 1;
}

/**
 * The limits under most pressure first. Tenths of fullness count, so that lines do not change
 * places with every call.
 */
export function byPressure(limits: Limit[]): Limit[] {
  const tenth = (limit: Limit) => Math.floor(Math.min(1, pressureOf(limit)) * 10);
  return limits.toSorted((a, b) => b.waiting - a.waiting || tenth(b) - tenth(a) || nameOf(a).localeCompare(nameOf(b), "en", { numeric: true }));
}

/** How long until the next call may begin, in nanoseconds, by the clock of the yard. */
export function untilNext({ nextAt }: Limit, at: string): number {
  return nextAt === undefined ? 0 : Math.max(0, (Date.parse(nextAt) - Date.parse(at)) * 1e6);
}
