// A call's steps, derived from its recorded marks.
import type { CallRow } from "../../api/types";

export type StepKind = "wait" | "run" | "work";

export type CallStep = {
  step: string;
  name: string;
  meaning: string;
  kind: StepKind;
  startNs: number;
  endNs: number;
  /** Whether the call failed in this step. */
  failed: boolean;
};

type About = { name: string; meaning: string; kind: StepKind };

const known: Record<string, About> = {
  record: { name: "Record", meaning: "Records the outcome.", kind: "work" },
  recover: { name: "Recover", meaning: "Handles crashes of the tool.", kind: "work" },
  "limit-args": { name: "Limit arguments", meaning: "Limits the size of arguments.", kind: "work" },
  inject: { name: "Inject", meaning: "Loads context for the caller.", kind: "wait" },
  validate: { name: "Validate", meaning: "Validates the arguments.", kind: "work" },
  admit: { name: "Admit", meaning: "Waits for limits and reserves the price.", kind: "wait" },
  "limit-result": { name: "Limit result", meaning: "Limits the size of the result.", kind: "work" },
  intend: { name: "Intend", meaning: "Records a write call before it runs.", kind: "work" },
  run: { name: "Run", meaning: "Runs the tool.", kind: "run" },
  ran: { name: "Settle", meaning: "Charges and records the call.", kind: "work" },
};

/**
 * A call's steps; each lasts until the next one starts. A failed call failed in its last
 * step, or in the tool if the tool ran.
 */
export function stepsOf({ marks = [], elapsedNs, code }: Pick<CallRow, "marks" | "elapsedNs" | "code">): CallStep[] {
  const ran = marks.some((mark) => mark.step === "ran");
  const failedStep = code === "OK" ? undefined : ran ? "run" : marks.at(-1)?.step;
  const first = marks[0]?.atNs ?? 0; // elapsedNs starts at the first mark
  const bounded = (atNs: number) => Math.max(0, Math.min(atNs - first, elapsedNs));
  return marks.map(({ step, atNs }, i) => {
    const startNs = bounded(atNs);
    const next = marks[i + 1];
    const endNs = next ? Math.max(startNs, bounded(next.atNs)) : elapsedNs;
    return { step, ...(known[step] ?? { name: step, meaning: "Custom step.", kind: "work" }), startNs, endNs, failed: step === failedStep };
  });
}

export type Nested = { call: CallRow; startNs: number; endNs: number };

/** A call's nested calls in order, with times relative to the call. */
export function nestedOf(call: Pick<CallRow, "at" | "elapsedNs">, children: CallRow[]): Nested[] {
  const bounded = (ns: number) => Math.max(0, Math.min(ns, call.elapsedNs));
  return children
    .map((child) => {
      const start = nanosBetween(call.at, child.at);
      return { call: child, startNs: bounded(start), endNs: bounded(start + child.elapsedNs) };
    })
    .sort((a, b) => a.startNs - b.startNs);
}

/** Date has millisecond precision, so the nanoseconds are parsed from the text. */
function nanosBetween(from: string, to: string): number {
  const seconds = Math.floor(Date.parse(to) / 1000) - Math.floor(Date.parse(from) / 1000);
  return seconds * 1e9 + nanosOf(to) - nanosOf(from);
}

function nanosOf(at: string): number {
  return Number((/\.(\d+)/.exec(at)?.[1] ?? "").padEnd(9, "0").slice(0, 9));
}
