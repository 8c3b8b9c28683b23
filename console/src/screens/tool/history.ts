// What was tried of a tool in this tab: the last calls, so that one can be made again.
import type { JsonObject } from "../../api/types";

export type Tried = { at: string; gate: string; args: JsonObject; code: string; ms: number };

const most = 10;
const largest = 64 << 10; // characters of one that is kept

const key = (source: string, name: string) => `toolyard.tried.${source}/${name}`;

export function readTried(source: string, name: string): Tried[] {
  try {
    const list: unknown = JSON.parse(sessionStorage.getItem(key(source, name)) ?? "[]");
    return Array.isArray(list) ? list.filter(isTried).slice(0, most) : [];
  } catch {
    return []; // no storage here, or not ours
  }
}

/** Puts one before the others, and returns all that are kept. */
export function addTried(source: string, name: string, tried: Tried): Tried[] {
  if (JSON.stringify(tried).length > largest) return readTried(source, name);
  const list = [tried, ...readTried(source, name)].slice(0, most);
  try {
    sessionStorage.setItem(key(source, name), JSON.stringify(list));
  } catch {
    // The storage is full or forbidden: the list lives until the page is left.
  }
  return list;
}

function isTried(value: unknown): value is Tried {
  if (typeof value !== "object" || value === null) return false;
  const { at, gate, args, code, ms } = value as Partial<Record<keyof Tried, unknown>>;
  return typeof at === "string" && typeof gate === "string" && typeof code === "string" && typeof ms === "number" && typeof args === "object" && args !== null && !Array.isArray(args);
}
