import { ApiError, stream } from "./client";
import { EventParser, type ServerSent } from "./events";
import type { CallBegin, LiveCall, LiveFilter } from "./types";

export type LiveState = "connecting" | "live" | "waiting" | "refused";

export type LiveHandlers = {
  begin?: (call: CallBegin) => void;
  call: (call: LiveCall) => void;
  lost?: (count: number) => void;
  /** Reports the connection's state. The states waiting and refused may have an error. */
  state: (state: LiveState, error?: ApiError) => void;
};

const firstPause = 500;
const maxPause = 15_000;
const maxRetryAfter = 60_000; // upper bound for the yard's Retry-After
const silenceTimeout = 40_000; // the yard sends a comment every 15 s

/**
 * Follows live calls until the returned function is called. It reconnects with exponential
 * backoff when the stream ends. The yard resends the latest calls after each connection, so
 * handlers must deduplicate calls by ID.
 */
export function followCalls(filter: LiveFilter, handlers: LiveHandlers): () => void {
  const stop = new AbortController();
  void follow(filter, handlers, stop.signal);
  return () => stop.abort();
}

async function follow(filter: LiveFilter, handlers: LiveHandlers, stopped: AbortSignal) {
  let pause = firstPause;
  while (!stopped.aborted) {
    handlers.state("connecting");
    let error: ApiError | undefined;
    try {
      await readOnce(filter, handlers, stopped, () => {
        pause = firstPause;
      });
    } catch (cause) {
      error = cause instanceof ApiError ? cause : undefined;
    }
    if (stopped.aborted) return;
    if (error && error.status >= 400 && error.status < 500 && error.status !== 429) {
      handlers.state("refused", error);
      return;
    }
    handlers.state("waiting", error);
    await sleep(Math.min(error?.retryAfterMs ?? pause * (0.75 + Math.random() / 2), maxRetryAfter), stopped);
    pause = Math.min(pause * 2, maxPause);
  }
}

async function readOnce(filter: LiveFilter, handlers: LiveHandlers, stopped: AbortSignal, opened: () => void) {
  const quiet = new AbortController();
  let timer = setTimeout(() => quiet.abort(), silenceTimeout);
  try {
    const body = await stream("/calls/live", filter, AbortSignal.any([stopped, quiet.signal]));
    opened();
    handlers.state("live");
    const parser = new EventParser();
    const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done || stopped.aborted) return;
      clearTimeout(timer);
      timer = setTimeout(() => quiet.abort(), silenceTimeout);
      for (const event of parser.feed(value)) dispatch(event, handlers);
    }
  } finally {
    clearTimeout(timer);
  }
}

function dispatch({ event, data }: ServerSent, handlers: LiveHandlers) {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch {
    return; // the event is not JSON
  }
  if (event === "call") handlers.call(value as LiveCall);
  if (event === "begin") handlers.begin?.(value as CallBegin);
  if (event === "lost") handlers.lost?.((value as { count: number }).count);
}

function sleep(ms: number, stopped: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    stopped.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
