import type { JsonObject } from "../../api/types";
import { count, duration } from "../../format";

/** The main limit in short form: "60/min", "4 concurrent", "1 per 2 s". */
export function shortLimit(limit: JsonObject | undefined): string | undefined {
  return limitTexts(limit)[0];
}

/** A tool's limits as texts, the main one first. */
export function limitTexts(limit: JsonObject | undefined): string[] {
  const words: string[] = [];
  if (!limit) return words;
  const { maxRequestsPerMinute: perMinute, maxConcurrency: concurrent, cooldownMs: pause, per } = limit;
  if (typeof perMinute === "number") words.push(`${count(perMinute)}/min`);
  if (typeof concurrent === "number") words.push(`${count(concurrent)} concurrent`);
  if (typeof pause === "number") words.push(`1 per ${duration(pause * 1e6)}`);
  return typeof per === "string" ? words.map((text) => `${text} per ${per}`) : words;
}
