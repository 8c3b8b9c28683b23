import type { Gate } from "../../api/types";

/** The settings of a gate; an empty toolset means all tools. */
export type Terms = Required<Pick<Gate, "mode" | "surface" | "toolset" | "naming" | "callers" | "errors">>;

const fresh: Terms = { mode: "read", surface: "both", toolset: "", naming: "mcp", callers: "keys", errors: "result" };

/** The settings of a gate, or the safe defaults of a new one. */
export function termsOf(gate: Gate | undefined): Terms {
  if (!gate) return fresh;
  const { mode, surface = fresh.surface, toolset = "", naming = fresh.naming, callers = fresh.callers, errors = fresh.errors } = gate;
  return { mode, surface, toolset, naming, callers, errors };
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
    { value: "anyone", label: "Anyone" },
  ],
  errors: [
    { value: "result", label: "As results for the model" },
    { value: "protocol", label: "JSON-RPC errors" },
  ],
} satisfies { [term in Exclude<keyof Terms, "toolset">]: { value: Terms[term]; label: string }[] };

/** What differs between two states of a gate. */
export function differences(was: Gate, now: Gate): { term: string; was: string; now: string }[] {
  const [a, b] = [termsOf(was), termsOf(now)];
  return (Object.keys(fresh) as (keyof Terms)[]).filter((term) => a[term] !== b[term]).map((term) => ({ term, was: a[term] || "all tools", now: b[term] || "all tools" }));
}
