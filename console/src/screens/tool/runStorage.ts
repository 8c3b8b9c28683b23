// A tool's recent runs in this browser tab, so that their arguments can be used again.
import type { JsonObject } from "../../api/types";

export type PastRun = { at: string; gate: string; args: JsonObject; code: string; ms: number };

const maxRuns = 10;
const maxRunLength = 64 << 10; // in characters; larger runs are not stored

const key = (source: string, name: string) => `toolyard.tried.${source}/${name}`;

export function readRuns(source: string, name: string): PastRun[] {
  try {
    const list: unknown = JSON.parse(sessionStorage.getItem(key(source, name)) ?? "[]");
    return Array.isArray(list) ? list.filter(isPastRun).slice(0, maxRuns) : [];
  } catch {
    return []; // storage is blocked, or the entry is invalid
  }
}

/** Adds a run to the front, and returns the stored runs. */
export function addRun(source: string, name: string, run: PastRun): PastRun[] {
  if (JSON.stringify(run).length > maxRunLength) return readRuns(source, name);
  const list = [run, ...readRuns(source, name)].slice(0, maxRuns);
  try {
    sessionStorage.setItem(key(source, name), JSON.stringify(list));
  } catch {
    // Storage is full or blocked: the list lasts until the page is closed.
  }
  return list;
}

function isPastRun(value: unknown): value is PastRun {
  if (typeof value !== "object" || value === null) return false;
  const { at, gate, args, code, ms } = value as Partial<Record<keyof PastRun, unknown>>;
  return typeof at === "string" && typeof gate === "string" && typeof code === "string" && typeof ms === "number" && typeof args === "object" && args !== null && !Array.isArray(args);
}
