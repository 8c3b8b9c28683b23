import type { Limit } from "../../api/types";
import { moneyShare } from "../../format";

/** The limited gate, server or tool. */
export function nameOf({ kind, gate, server, tool, name }: Limit): string {
  if (kind === "gate") return gate ?? name;
  return kind === "tool" && tool ? [server, tool].filter(Boolean).join(" / ") : (server ?? name);
}

/** The utilization of a limit: the highest of rate, concurrency and spend, where 1 is full. */
export function pressureOf({ used = 0, perMinute, running = 0, concurrency, per, spentUsd, maxUsd }: Limit): number {
  if (per) return 0; // the usage per account or caller is unknown
  return Math.max(perMinute ? used / perMinute : 0, concurrency ? running / concurrency : 0, spentUsd && maxUsd ? moneyShare(spentUsd, maxUsd) : 0);
}

/** Reports whether the next call has to wait. */
export function isFull(limit: Limit): boolean {
  return limit.waiting > 0 || pressureOf(limit) >= 1;
}

/**
 * Sorts limits by utilization, highest first. It is rounded down to tenths, so that rows do not
 * swap places with every call.
 */
export function byPressure(limits: Limit[]): Limit[] {
  const tenth = (limit: Limit) => Math.floor(Math.min(1, pressureOf(limit)) * 10);
  return limits.toSorted((a, b) => b.waiting - a.waiting || tenth(b) - tenth(a) || nameOf(a).localeCompare(nameOf(b), "en", { numeric: true }));
}

/** The time until the next call may start, in nanoseconds, by the yard's clock. */
export function untilNext({ nextAt }: Limit, at: string): number {
  return nextAt === undefined ? 0 : Math.max(0, (Date.parse(nextAt) - Date.parse(at)) * 1e6);
}
