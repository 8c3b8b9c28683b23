// A call that may ask questions before it finishes. Each round is a request that continues with the
// previous round's state.
import { call } from "../../api/actions";
import { ApiError } from "../../api/client";
import type { JsonObject } from "../../api/json";
import type { Answers, InputRequired, CallAnswer, CallEnd, CallRequest } from "../../api/types";

/** The initial request of a call. */
export type RunRequest = CallRequest & { gate: string; args: JsonObject };

/** A tool's questions and the call that they belong to. The state is stored only here. */
export type OpenQuestion = {
  request: RunRequest;
  inputRequired: InputRequired;
  round: number;
  /** Why the answer was temporarily rejected; it can be sent again. */
  refused?: string;
};

export type Outcome = {
  answer?: CallEnd;
  error?: unknown;
  ms: number;
  /** Whether the question can no longer be answered, so that the call has to start over. */
  lost?: boolean;
};

/** Starts a call, or continues one with answers. It returns an outcome or a question, and never throws. */
export async function runRound(request: RunRequest, signal: AbortSignal, open?: OpenQuestion, answers: Answers = {}): Promise<Outcome & { question?: OpenQuestion }> {
  const began = performance.now();
  const ms = () => performance.now() - began;
  try {
    const answer = await call(open ? continuation(open, answers) : { ...request, interactive: true }, signal);
    if (hasEnded(answer)) return { answer, ms: ms() };
    if (!answer.inputRequired) throw new ApiError("BAD_ANSWER", 0, "The response has neither a result nor a question.");
    if (allCanceled(answers)) throw new ApiError("CANCELED", 0, "You canceled, but the tool asked again, so the call was abandoned.");
    return { question: { request, inputRequired: answer.inputRequired, round: (open?.round ?? 0) + 1 }, ms: ms() };
  } catch (cause) {
    if (open && isRetryable(cause)) return { question: { ...open, refused: cause.message }, ms: ms() };
    return { error: signal.aborted ? canceledError() : isExpired(open, cause) ? expiredError() : cause, ms: ms(), ...(open && { lost: true }) };
  }
}

/** The same request with the state, and the answers if there are any. */
function continuation({ request, inputRequired }: OpenQuestion, answers: Answers): CallRequest {
  return { ...request, state: inputRequired.state, ...(Object.keys(answers).length > 0 && { answers }) };
}

const hasEnded = (answer: CallAnswer): answer is CallEnd => answer.result !== undefined;

/** Reports whether the user canceled all questions. The tool must not ask them again forever. */
function allCanceled(answers: Answers): boolean {
  const all = Object.values(answers);
  return all.length > 0 && all.every(({ action }) => action === "cancel");
}

/** Reports whether a call was rejected before the tool ran, by a limit, a budget or a store outage. Its state is still valid. */
function isRetryable(cause: unknown): cause is ApiError {
  return cause instanceof ApiError && [402, 429, 503].includes(cause.status);
}

/** Reports whether the state was rejected. */
function isExpired(open: OpenQuestion | undefined, cause: unknown): boolean {
  return open !== undefined && cause instanceof ApiError && cause.status === 400 && cause.issues.some(({ path }) => path === "state");
}

function expiredError(): ApiError {
  return new ApiError("EXPIRED", 400, "The question has expired. A question can be answered once, within 10 minutes.");
}

function canceledError(): ApiError {
  return new ApiError("CANCELED", 0, "Canceled. The tool may already have made changes.");
}
