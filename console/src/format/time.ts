import { duration } from "./numbers";

const absoluteFormat = new Intl.DateTimeFormat("en-GB", {
  day: "numeric", month: "short", year: "numeric",
  hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZoneName: "short",
});
const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const secondsFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const yearFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

/** The full date and time in the local time zone. */
export function absolute(at: string): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? at : absoluteFormat.format(date);
}

/** The time of day: "14:05". */
export const clock = (at: string) => clockFormat.format(new Date(at));

/** The time of day with seconds: "14:05:09". */
export const clockSeconds = (at: string) => secondsFormat.format(new Date(at));

/** A relative time: "now", "12 s ago", "5 min ago", "in 3 h", "4 Mar". */
export function relative(at: string, now: number = Date.now()): string {
  const then = new Date(at).getTime();
  if (Number.isNaN(then)) return at;
  const seconds = Math.round((now - then) / 1000);
  if (seconds < 5 && seconds > -10) return "now"; // tolerates clock skew
  const text = distance(Math.abs(seconds));
  if (text !== undefined) return seconds > 0 ? `${text} ago` : `in ${text}`;
  const date = new Date(then);
  return date.getFullYear() === new Date(now).getFullYear() ? dayFormat.format(date) : yearFormat.format(date);
}

function distance(seconds: number): string | undefined {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h`;
  if (seconds < 14 * 86_400) return `${Math.floor(seconds / 86_400)} d`;
  return undefined;
}

/** The time since a moment in one unit: "12 s", "24 min", "3 h", "40 d". */
export function elapsed(at: string, now: number = Date.now()): string {
  const seconds = Math.max(0, Math.round((now - new Date(at).getTime()) / 1000));
  if (Number.isNaN(seconds)) return at;
  return distance(seconds) ?? `${Math.floor(seconds / 86_400)} d`;
}

/** The duration since a moment. */
export function lastedFor(since: string, now: number = Date.now()): string {
  return duration(Math.max(0, now - new Date(since).getTime()) * 1e6);
}
