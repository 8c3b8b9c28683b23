import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { ApiError } from "../../api/client";
import { isObject } from "../../api/json";
import type { Answers } from "../../api/types";
import type { Fault } from "./check";
import { addRun, readRuns, type PastRun } from "./runStorage";
import { errorOf, faultsOf, resultIssues } from "./issues";
import { type OpenQuestion, type RunRequest, runRound, type Outcome } from "./rounds";

export type ToolRun = {
  /** The start time of the running call, if any. */
  since: number | undefined;
  /** The open question; it stays while the answer is being sent. */
  question: OpenQuestion | undefined;
  outcome: Outcome | undefined;
  runs: PastRun[];
  run: (request: RunRequest) => Promise<Fault[]>;
  /** Answers the open question. */
  answer: (answers: Answers) => Promise<Fault[]>;
  cancel: () => void;
};

/** Runs a tool, one call at a time, and stores the recent runs. */
export function useToolRun(source: string, name: string): ToolRun {
  const client = useQueryClient();
  const [since, setSince] = useState<number>();
  const [question, setQuestion] = useState<OpenQuestion>();
  const [outcome, setOutcome] = useState<Outcome>();
  const [runs, setRuns] = useState(() => readRuns(source, name));
  const stop = useRef<AbortController>(undefined);
  useEffect(() => () => stop.current?.abort(), []);
  const go = async (request: RunRequest, open?: OpenQuestion, answers?: Answers): Promise<Fault[]> => {
    stop.current?.abort(); // only one run at a time
    const abort = new AbortController();
    stop.current = abort;
    setSince(Date.now());
    setOutcome(undefined);
    const result = await runRound(request, abort.signal, open, answers);
    if (stop.current !== abort) return [];
    setSince(undefined);
    setQuestion(result.question);
    void client.invalidateQueries({ queryKey: ["calls"] });
    if (result.question) return [];
    setOutcome(result);
    setRuns(addRun(source, name, { at: new Date().toISOString(), gate: request.gate, args: request.args, code: codeOf(result), ms: Math.round(result.ms) }));
    return faultsIn(result);
  };
  const answer: ToolRun["answer"] = async (answers) => (question ? go(question.request, question, answers) : []);
  return { since, question, outcome, runs, run: (request) => go(request), answer, cancel: () => stop.current?.abort() };
}

/** A run's result code. */
export function codeOf({ answer, error }: Outcome): string {
  if (error instanceof ApiError) return error.code;
  if (!answer) return "FAILED";
  if (answer.result.isError !== true) return "OK";
  const data = errorOf(answer.result);
  const code = isObject(data) ? data.error : undefined;
  return typeof code === "string" && code.length <= 40 ? code : "TOOL_ERROR";
}

/** The errors in the arguments. A rejected answer has none. */
function faultsIn({ answer, error, lost }: Outcome): Fault[] {
  if (error instanceof ApiError) return lost ? [] : faultsOf(error.issues);
  return answer?.result.isError ? faultsOf(resultIssues(errorOf(answer.result))) : [];
}
