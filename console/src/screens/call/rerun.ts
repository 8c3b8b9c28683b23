import { isObject, type Json, type JsonObject } from "../../api/json";
import type { CallRow } from "../../api/types";

const key = "toolyard.try";

/** Stores a call's arguments for its tool's form, only in this tab. */
export function storeArguments(call: CallRow, args: JsonObject | undefined) {
  const stored = { source: call.server ?? "-", name: call.tool, gate: call.gate, args };
  try {
    sessionStorage.setItem(key, JSON.stringify(stored));
  } catch {
    // The arguments are too large, or storage is blocked: the form starts empty.
  }
}

/** Returns and removes the stored arguments for a tool. */
export function takeArguments(source: string, name: string): JsonObject | undefined {
  try {
    const stored = JSON.parse(sessionStorage.getItem(key) ?? "null") as { source?: Json; name?: Json; args?: Json } | null;
    if (stored?.source !== source || stored.name !== name) return undefined;
    sessionStorage.removeItem(key);
    return argumentsOf(stored.args, "full");
  } catch {
    return undefined;
  }
}

/** The arguments, if they were recorded in full and can be sent again. */
export function argumentsOf(args: Json | undefined, recorded: string | undefined): JsonObject | undefined {
  return recorded === "full" && isObject(args) ? args : undefined;
}
