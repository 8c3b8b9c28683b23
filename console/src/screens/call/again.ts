import { isObject, type Json, type JsonObject } from "../../api/json";
import type { CallRow } from "../../api/types";

const key = "toolyard.try";

/** Leaves the arguments of a call for the form of its tool, in this tab only. */
export function leaveForTool(call: CallRow, args: JsonObject | undefined) {
  const left = { source: call.server ?? "-", name: call.tool, gate: call.gate, args };
  try {
    sessionStorage.setItem(key, JSON.stringify(left));
  } catch {
    // Too large, or the browser keeps nothing: the form begins empty.
  }
}

/** Takes the arguments that were left for a tool, once. */
export function takeForTool(source: string, name: string): JsonObject | undefined {
  try {
    const left = JSON.parse(sessionStorage.getItem(key) ?? "null") as { source?: Json; name?: Json; args?: Json } | null;
    if (left?.source !== source || left.name !== name) return undefined;
    sessionStorage.removeItem(key);
    return argumentsOf(left.args, "full");
  } catch {
    return undefined;
  }
}

/** The arguments if they can be sent again: all of them were kept. */
export function argumentsOf(args: Json | undefined, kept: string | undefined): JsonObject | undefined {
  return kept === "full" && isObject(args) ? args : undefined;
}
