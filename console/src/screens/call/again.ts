import type { CallRow, Json, JsonObject } from "../../api/types";

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

/** The arguments if they can be sent again: all of them were kept. */
export function argumentsOf(args: Json | undefined, kept: string | undefined): JsonObject | undefined {
  return kept === "full" && typeof args === "object" && args !== null && !Array.isArray(args) ? args : undefined;
}
