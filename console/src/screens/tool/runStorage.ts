// What was tried of a tool in this tab: the last calls, so that one can be made again.
import type { JsonObject } from "../../api/types";

export type PastRun = { at: string; gate: string; args: JsonObject; code: string; ms: number };

const maxRuns = 10;
const maxRunLength = 64 << 10; // characters of one that is kept

const key = (source: string, name: string) => `toolyard.tried.${source}/${name}`;

export function readRuns(source: string, name: string): PastRun[] {
  try {
    const list: unknown = JSON.parse(sessionStorage.getItem(key(source, name)) ?? "[]");
    return Array.isArray(list) ? list.filter(isPastRun).slice(0, maxRuns) : [];
  } catch {
    return []; // no storage here, or not ours
  }
}

/** Puts one before the others, and returns all that are kept. */
export function addRun(source: string, name: string, run: PastRun): PastRun[] {
  if (JSON.stringify(run).length > maxRunLength) return readRuns(source, name);
  const list = [run, ...readRuns(source, name)].slice(0, maxRuns);
  try {
    sessionStorage.setItem(key(source, name), JSON.stringify(list));
  } catch {
    // The storage is full or forbidden: the list lives until the page is left.
  }
  return list;
}

function isPastRun(value: unknown): value is PastRun {
  if (typeof value !== "object" || value === null) return false;
  const { at, gate, args, code, ms } = value as Partial<Record<keyof PastRun, unknown>>;
  return typeof at === "string" && typeof gate === "string" && typeof code === "string" && typeof ms === "number" && typeof args === "object" && args !== null && !Array.isArray(args);
}
