import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { call } from "../../api/actions";
import { ApiError } from "../../api/client";
import { isObject, type JsonObject } from "../../api/json";
import type { CallAnswer, CallEnd, CallRequest } from "../../api/types";
import type { Fault } from "./check";
import { addTried, readTried, type Tried } from "./history";
import { faultsOf, resultIssues } from "./issues";

export type Outcome = { answer?: CallEnd; error?: unknown; ms: number };

export type Trial = {
  /** When the call that runs began; undefined when none does. */
  since: number | undefined;
  outcome: Outcome | undefined;
  tried: Tried[];
  run: (request: CallRequest & { gate: string; args: JsonObject }) => Promise<Fault[]>;
  cancel: () => void;
};

/** Makes calls of a tool, one at a time, and remembers them. */
export function useTrial(source: string, name: string): Trial {
  const client = useQueryClient();
  const [since, setSince] = useState<number>();
  const [outcome, setOutcome] = useState<Outcome>();
  const [tried, setTried] = useState(() => readTried(source, name));
  const stop = useRef<AbortController>(undefined);
  useEffect(() => () => stop.current?.abort(), []);
  const run: Trial["run"] = async (request) => {
    stop.current?.abort(); // one at a time
    const abort = new AbortController();
    stop.current = abort;
    const began = performance.now();
    setSince(Date.now());
    setOutcome(undefined);
    const ended = await make(request, abort.signal, began);
    if (stop.current !== abort) return [];
    setSince(undefined);
    setOutcome(ended);
    setTried(addTried(source, name, { at: new Date().toISOString(), gate: request.gate, args: request.args, code: codeOf(ended), ms: Math.round(ended.ms) }));
    void client.invalidateQueries({ queryKey: ["calls"] });
    return faultsIn(ended);
  };
  return { since, outcome, tried, run, cancel: () => stop.current?.abort() };
}

async function make(request: CallRequest, signal: AbortSignal, began: number): Promise<Outcome> {
  try {
    const answer = await call(request, signal);
    if (!hasEnded(answer)) throw new ApiError("MISSING_CAPABILITY", 0, "The tool asks something before it goes on, which cannot be answered here; call it over MCP.");
    return { answer, ms: performance.now() - began };
  } catch (cause) {
    const error = signal.aborted ? new ApiError("CANCELED", 0, "You stopped waiting. The yard was told to stop the call; it may have had an effect already.") : cause;
    return { error, ms: performance.now() - began };
  }
}

const hasEnded = (answer: CallAnswer): answer is CallEnd => answer.result !== undefined;

/** How a call ended, in the code of the record. */
export function codeOf({ answer, error }: Outcome): string {
  if (error instanceof ApiError) return error.code;
  if (!answer) return "FAILED";
  if (answer.result.isError !== true) return "OK";
  const data = answer.result.structuredContent;
  const code = isObject(data) ? data.error : undefined;
  return typeof code === "string" && code.length <= 40 ? code : "TOOL_ERROR";
}

function faultsIn({ answer, error }: Outcome): Fault[] {
  if (error instanceof ApiError) return faultsOf(error.issues);
  return answer?.result.isError ? faultsOf(resultIssues(answer.result.structuredContent)) : [];
}
