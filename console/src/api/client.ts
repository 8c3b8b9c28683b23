import { forgetSecret, header, pageSecret } from "./secret";
import type { Issue, ProblemDetails } from "./types";

const prefix = "/api/v1";

/** An error response from the API, or a failure to reach it (status 0). */
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

/** A template tag for API paths; it percent-encodes the names. */
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

/** Sends a request with the page secret. On 401 the secret is deleted. */
async function request(to: string, headers: Record<string, string>, init: RequestInit): Promise<Response> {
  const secret = pageSecret();
  const answer = await fetch(prefix + to, {
    ...init,
    headers: { ...headers, ...(secret && { [header]: secret }) },
    credentials: "same-origin",
  });
  if (answer.ok) return answer;
  if (answer.status === 401 && secret && !to.startsWith("/signin")) forgetSecret(secret);
  throw await toApiError(answer);
}

async function send(method: string, to: string, { body, signal }: Send): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  try {
    return await request(to, headers, { method, ...(body !== undefined && { body: JSON.stringify(body) }), ...(signal && { signal }) });
  } catch (cause) {
    if (signal?.aborted || cause instanceof ApiError) throw cause;
    throw new ApiError("UNREACHABLE", 0, "Cannot reach the yard. It may be restarting, or you may be offline.");
  }
}

/** Converts an error response from the yard, or from a proxy in front of it. */
export async function toApiError(answer: Response): Promise<ApiError> {
  const details = (await answer.json().catch(() => ({}))) as Partial<ProblemDetails> | null;
  const message = details?.message || details?.detail || `Unexpected response: ${answer.status} ${answer.statusText}`.trim() + ".";
  return new ApiError(details?.error ?? `HTTP_${answer.status}`, answer.status, message, details?.issues ?? [], details?.retryAfterMs);
}

async function read<T>(answer: Response): Promise<T> {
  if (answer.status === 204) return undefined as T;
  try {
    return (await answer.json()) as T;
  } catch {
    throw new ApiError("BAD_ANSWER", answer.status, "The response is not valid JSON.");
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

/** Opens an event stream. */
export async function stream(to: string, query: Query, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
  const answer = await request(withQuery(to, query), { Accept: "text/event-stream" }, { signal });
  if (!answer.body) throw new ApiError("BAD_ANSWER", answer.status, "The event stream has no body.");
  return answer.body;
}
