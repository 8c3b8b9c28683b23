import type { Gate } from "../../api/types";

/** What is said of a gate; an empty toolset stands for all tools. */
export type Terms = Required<Pick<Gate, "mode" | "surface" | "toolset" | "naming" | "callers" | "errors">>;

const fresh: Terms = { mode: "read", surface: "both", toolset: "", naming: "mcp", callers: "keys", errors: "result" };

/** The terms of a gate, or those to begin a new one with: the careful ones. */
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
    { value: "answer", label: "Composing answers" },
    { value: "execute", label: "Paid execution" },
  ],
  naming: [
    { value: "mcp", label: "mcp: mcp_server__tool" },
    { value: "dotted", label: "dotted: server__tool" },
    { value: "client", label: "client: mcp_server_tool" },
  ],
  callers: [
    { value: "keys", label: "Those with a key" },
    { value: "anyone", label: "Anyone who reaches it" },
  ],
  errors: [
    { value: "result", label: "Results that a model can read" },
    { value: "protocol", label: "JSON-RPC errors" },
  ],
} satisfies { [term in Exclude<keyof Terms, "toolset">]: { value: Terms[term]; label: string }[] };

/** What differs between two states of a gate. */
export function differences(was: Gate, now: Gate): { term: string; was: string; now: string }[] {
  const [a, b] = [termsOf(was), termsOf(now)];
  return (Object.keys(fresh) as (keyof Terms)[]).filter((term) => a[term] !== b[term]).map((term) => ({ term, was: a[term] || "all tools", now: b[term] || "all tools" }));
}
