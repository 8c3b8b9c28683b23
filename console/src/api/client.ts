import type { Issue, ProblemDetails } from "./types";

const prefix = "/api/v1";

/** A refusal of the API, or a failure to reach it (status 0). */
export class ApiError extends Error {
  readonly code: string;
  readonly status: number;
  readonly issues: Issue[];
  readonly retryAfterMs: number | undefined;

  constructor(code: string, status: number, message: string, issues: Issue[] = [], retryAfterMs?: number) {
    super(message);
    this.name = "ApiError";
    this.code = code;
    this.status = status;
    this.issues = issues;
    this.retryAfterMs = retryAfterMs;
  }
}

export type Query = Record<string, string | number | boolean | undefined>;

/** The path of a resource: names are percent-encoded, empty filters left out. */
export function path(parts: TemplateStringsArray, ...names: (string | number)[]): string {
  return parts.reduce((all, part, i) => all + encodeURIComponent(String(names[i - 1])) + part);
}

export function withQuery(to: string, query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "" && value !== false) search.set(name, String(value));
  }
  const text = search.toString();
  return text === "" ? to : `${to}?${text}`;
}

type Send = { body?: unknown; signal?: AbortSignal | undefined };

async function send(method: string, to: string, { body, signal }: Send): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer: Response;
  try {
    answer = await fetch(prefix + to, {
      method,
      headers,
      credentials: "same-origin",
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    });
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw new ApiError("UNREACHABLE", 0, "The yard cannot be reached. It may be restarting, or the network is away.");
  }
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

/** Reads a refusal, whatever answered: the yard, or a proxy in front of it. */
export async function refusal(answer: Response): Promise<ApiError> {
  const about = (await answer.json().catch(() => ({}))) as Partial<ProblemDetails> | null;
  const message = about?.message || about?.detail || `The answer was ${answer.status} ${answer.statusText}`.trim() + ".";
  return new ApiError(about?.error ?? `HTTP_${answer.status}`, answer.status, message, about?.issues ?? [], about?.retryAfterMs);
}

async function read<T>(answer: Response): Promise<T> {
  if (answer.status === 204) return undefined as T;
  try {
    return (await answer.json()) as T;
  } catch {
    throw new ApiError("BAD_ANSWER", answer.status, "The yard answered with something that is not JSON.");
  }
}

export async function get<T>(to: string, query?: Query, signal?: AbortSignal): Promise<T> {
  return read<T>(await send("GET", withQuery(to, query), { signal }));
}

export async function post<T>(to: string, body: unknown = {}, signal?: AbortSignal): Promise<T> {
  return read<T>(await send("POST", to, { body, signal }));
}

export async function put<T>(to: string, body: unknown): Promise<T> {
  return read<T>(await send("PUT", to, { body }));
}

export async function remove(to: string, query?: Query): Promise<void> {
  await send("DELETE", withQuery(to, query), {});
}

/** Opens a stream of events. */
export async function stream(to: string, query: Query, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
  const answer = await fetch(prefix + withQuery(to, query), {
    headers: { Accept: "text/event-stream" },
    credentials: "same-origin",
    signal,
  });
  if (!answer.ok) throw await refusal(answer);
  if (!answer.body) throw new ApiError("BAD_ANSWER", answer.status, "The stream has no body.");
  return answer.body;
}
