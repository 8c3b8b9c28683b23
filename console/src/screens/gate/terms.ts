import type { Gate } from "../../api/types";

/** A gate's settings; an empty toolset means all tools. */
export type GateSettings = Required<Pick<Gate, "mode" | "surface" | "toolset" | "naming" | "callers" | "errors" | "offer">>;

const defaults: GateSettings = { mode: "read", surface: "both", toolset: "", naming: "mcp", callers: "keys", errors: "result", offer: "tools" };

/** A gate's settings, or safe defaults for a new gate. */
export function settingsOf(gate: Gate | undefined): GateSettings {
  if (!gate) return defaults;
  const { mode, surface = defaults.surface, toolset = "", naming = defaults.naming, callers = defaults.callers, errors = defaults.errors, offer = defaults.offer } = gate;
  return { mode, surface, toolset, naming, callers, errors, offer };
}

export const choices = {
  mode: [
    { value: "read", label: "Read" },
    { value: "write", label: "Read and write" },
  ],
  surface: [
    { value: "both", label: "Both" },
    { value: "answer", label: "Answer" },
    { value: "execute", label: "Execute (paid)" },
  ],
  naming: [
    { value: "mcp", label: "mcp: mcp_server__tool" },
    { value: "plain", label: "plain: server__tool" },
    { value: "client", label: "client: mcp_server_tool" },
  ],
  callers: [
    { value: "keys", label: "With a key" },
    { value: "tokens", label: "With an access token" },
    { value: "authenticated", label: "With a key or an access token" },
    { value: "anyone", label: "Anyone" },
  ],
  errors: [
    { value: "result", label: "As results for the model" },
    { value: "protocol", label: "JSON-RPC errors" },
  ],
  offer: [
    { value: "tools", label: "Every tool" },
    { value: "search", label: "A search" },
  ],
} satisfies { [term in Exclude<keyof GateSettings, "toolset">]: { value: GateSettings[term]; label: string }[] };

/** The settings that differ between two states of a gate. */
export function differences(was: Gate, now: Gate): { term: string; was: string; now: string }[] {
  const [a, b] = [settingsOf(was), settingsOf(now)];
  return (Object.keys(defaults) as (keyof GateSettings)[]).filter((term) => a[term] !== b[term]).map((term) => ({ term, was: a[term] || "all tools", now: b[term] || "all tools" }));
}
