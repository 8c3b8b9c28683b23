// What people can do: one function for each request that changes something. Screens call
// them in a useMutation and invalidate the queries that they touch.
import { path, post, put, remove } from "./client";
import type {
  BatchAnswer,
  CallAnswer,
  CallRequest,
  Gate,
  GateBody,
  KeyRequest,
  Me,
  NewKey,
  Purse,
  ServerItem,
  ToolHash,
  Toolset,
  ToolsetBody,
  ToolsetPreview,
} from "./types";

export const signIn = (key: string) => post<Me>("/signin", { key });
export const signOut = () => remove("/signin");

export const call = (request: CallRequest, signal?: AbortSignal) => post<CallAnswer>("/calls", request, signal);
export const callBatch = (calls: CallRequest[]) => post<BatchAnswer>("/calls/batch", { calls });

export const approve = (server: string, tools: ToolHash[]) =>
  post<{ approved: number; waiting: number }>(path`/servers/${server}/approve`, { tools });
export const reject = (server: string, tools: ToolHash[]) =>
  post<{ rejected: number; waiting: number }>(path`/servers/${server}/reject`, { tools });
export const retryServer = (server: string) => post<ServerItem>(path`/servers/${server}/retry`);

export const putToolset = (name: string, body: ToolsetBody & { version: number }) =>
  put<Toolset>(path`/toolsets/${name}`, body);
export const removeToolset = (name: string, version: number) => remove(path`/toolsets/${name}`, { version });
export const previewToolset = (name: string, body: ToolsetBody, signal?: AbortSignal) =>
  post<ToolsetPreview>(path`/toolsets/${name}/preview`, body, signal);
export const putGate = (name: string, body: GateBody & { version: number }) => put<Gate>(path`/gates/${name}`, body);
export const removeGate = (name: string, version: number) => remove(path`/gates/${name}`, { version });
export const restoreEdit = (to: number, current: number) =>
  post<{ version: number }>(path`/edits/${to}/restore`, { version: current });

export const fundAccount = (id: string, amountUsd: string, reference: string) =>
  post<Purse>(path`/accounts/${id}/fund`, { amountUsd, reference });
export const openSession = (request: { limitUsd?: string; calls?: number; ttl?: string }) =>
  post<Purse>("/sessions", request);
export const closeSession = (id: string) => post<Purse>(path`/sessions/${id}/close`);

export const createKey = (request: KeyRequest) => post<NewKey>("/keys", request);
export const revokeKey = (prefix: string) => remove(path`/keys/${prefix}`);
