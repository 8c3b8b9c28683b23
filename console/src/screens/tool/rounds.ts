// A call that may ask before it ends: each round is a request of its own, and goes on with the
// state of the one before.
import { call } from "../../api/actions";
import { ApiError } from "../../api/client";
import type { JsonObject } from "../../api/json";
import type { Answers, InputRequired, CallAnswer, CallEnd, CallRequest } from "../../api/types";

/** A call as it was begun. */
export type RunRequest = CallRequest & { gate: string; args: JsonObject };

/** What a tool asks, and the call that it belongs to. The state is kept here and nowhere else. */
export type OpenQuestion = {
  request: RunRequest;
  inputRequired: InputRequired;
  round: number;
  /** Why an answer was not taken now; it may be sent again. */
  refused?: string;
};

export type Outcome = {
  answer?: CallEnd;
  error?: unknown;
  ms: number;
  /** There was a question, and it is gone without an answer: the call must be made anew. */
  lost?: boolean;
};

/** Makes a call, or goes on with one that asks. It comes to an end or asks, and does not throw. */
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

/** The same call with the state, and with the answers if there are any. */
function continuation({ request, inputRequired }: OpenQuestion, answers: Answers): CallRequest {
  return { ...request, state: inputRequired.state, ...(Object.keys(answers).length > 0 && { answers }) };
}

const hasEnded = (answer: CallAnswer): answer is CallEnd => answer.result !== undefined;

/** Whether all was left unanswered: who does that must not be asked for ever. */
function allCanceled(answers: Answers): boolean {
  const all = Object.values(answers);
  return all.length > 0 && all.every(({ action }) => action === "cancel");
}

/** Whether a call was refused before its tool ran, for lack of room, money or a store: its state is good as before. */
function isRetryable(cause: unknown): cause is ApiError {
  return cause instanceof ApiError && [402, 429, 503].includes(cause.status);
}

/** Whether a state is not taken any more. */
function isExpired(open: OpenQuestion | undefined, cause: unknown): boolean {
  return open !== undefined && cause instanceof ApiError && cause.status === 400 && cause.issues.some(({ path }) => path === "state");
}

function expiredError(): ApiError {
  return new ApiError("EXPIRED", 400, "The question has expired. A question can be answered once, within 10 minutes.");
}

function canceledError(): ApiError {
  return new ApiError("CANCELED", 0, "Canceled. The call may already have had effects.");
}
