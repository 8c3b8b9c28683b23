import type { Context } from "toolyard";
import { z } from "zod";

export const description = "Returns the current time, or formats a given time, in a format and time zone of your choice.";
export const category = "basics";
export const modes = ["read", "write"];

export const inputSchema = z.object({
  format: z.enum(["iso", "unix", "human", "relative"]).default("iso").describe("Format of the time"),
  timezone: z.string().default("UTC").describe("IANA time zone, such as Europe/Berlin"),
  time: z.iso.datetime({ offset: true }).optional().describe("Time to format; default: the time of the call"),
});

export default async ({ format, timezone, time }: z.infer<typeof inputSchema>, ctx: Context) => {
  // ctx.asOf is the as-of time of the call, which may be in the past (a backtest). Use it
  // instead of the clock to make results reproducible.
  const at = time ? new Date(time) : ctx.asOf;
  try {
    new Intl.DateTimeFormat("en-US", { timeZone: timezone });
  } catch {
    return { isError: true, error: `"${timezone}" is not a time zone. Use an IANA name such as Europe/Berlin.` };
  }
  if (format === "unix") return String(Math.floor(at.getTime() / 1000));
  if (format === "human") return at.toLocaleString("en-US", { timeZone: timezone, dateStyle: "full", timeStyle: "long" });
  if (format === "relative") return relative((at.getTime() - ctx.asOf.getTime()) / 1000);
  return iso(at, timezone);
};

/** iso writes a time as clocks in the zone show it, with their distance from UTC. */
function iso(at: Date, timeZone: string) {
  const parts = new Intl.DateTimeFormat("en-US", { timeZone, timeZoneName: "longOffset" }).formatToParts(at);
  const offset = parts.find((p) => p.type === "timeZoneName")?.value.replace("GMT", "") ?? ""; // such as +02:00
  const [hours = 0, minutes = 0] = offset.slice(1).split(":").map(Number);
  const ahead = (hours * 60 + minutes) * (offset.startsWith("-") ? -60_000 : 60_000);
  return ahead === 0 ? at.toISOString() : new Date(at.getTime() + ahead).toISOString().replace("Z", offset);
}

function relative(seconds: number) {
  const units: [string, number][] = [["day", 86_400], ["hour", 3_600], ["minute", 60], ["second", 1]];
  for (const [unit, length] of units) {
    const n = Math.floor(Math.abs(seconds) / length);
    if (n > 0) return `${seconds > 0 ? "in " : ""}${n} ${unit}${n > 1 ? "s" : ""}${seconds < 0 ? " ago" : ""}`;
  }
  return "now";
}
