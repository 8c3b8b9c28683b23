// One function per request that changes something. Screens call them in useMutation and
// invalidate the affected queries.
import { path, post, put, remove } from "./client";
import { forgetSecret, storeSecret } from "./secret";
import type * as api from "./types";

export async function signIn(key: string): Promise<api.Me> {
  const { pageSecret, ...me } = await post<api.SignedIn>("/signin", { key } satisfies api.SignIn);
  storeSecret(pageSecret);
  return me;
}

export const startSignIn = (issuer: string) => post<api.BegunSignIn>(path`/signin/issuers/${issuer}`);
export const completeSignIn = (response: api.SignInResponse) => post<api.SignedIn>("/signin/response", response);

/** Ends the sign-in in this browser. It also works offline, because the cookie is useless without the page secret. */
export function signOut(): Promise<void> {
  forgetSecret();
  return remove("/signin");
}

export const call = (request: api.CallRequest, signal?: AbortSignal) => post<api.CallAnswer>("/calls", request, signal);

export const approve = (server: string, tools: api.ToolHash[]) =>
  post<api.Approved>(path`/servers/${server}/approve`, { tools } satisfies api.Picks);
export const reject = (server: string, tools: api.ToolHash[]) =>
  post<api.Rejected>(path`/servers/${server}/reject`, { tools } satisfies api.Picks);
export const retryServer = (server: string) => post<api.ServerItem>(path`/servers/${server}/retry`);

export const putToolset = (name: string, body: api.ToolsetChange) => put<api.Toolset>(path`/toolsets/${name}`, body);
export const removeToolset = (name: string, version: number) =>
  remove(path`/toolsets/${name}`, { version } satisfies api.VersionFilter);
export const previewToolset = (name: string, body: api.ToolsetBody, signal?: AbortSignal) =>
  post<api.ToolsetPreview>(path`/toolsets/${name}/preview`, body, signal);
export const putGate = (name: string, body: api.GateChange) => put<api.Gate>(path`/gates/${name}`, body);
export const removeGate = (name: string, version: number) =>
  remove(path`/gates/${name}`, { version } satisfies api.VersionFilter);
export const putPrice = (source: string, tool: string, body: api.PriceChange) => put<api.Price>(path`/prices/${source}/${tool}`, body);
export const removePrice = (source: string, tool: string, version: number) =>
  remove(path`/prices/${source}/${tool}`, { version } satisfies api.VersionFilter);
export const restoreEdit = (to: number, current: number) =>
  post<api.Version>(path`/edits/${to}/restore`, { version: current } satisfies api.Version);

export const approveCall = (id: string, body: api.ApproveCall) => post<api.Approval>(path`/approvals/${id}/approve`, body);
export const declineCall = (id: string, body: api.DeclineCall) => post<api.Approval>(path`/approvals/${id}/decline`, body);

export const runPackAction = (pack: string, action: string, args: api.JsonObject) =>
  post<api.PackActionResult>(path`/packs/${pack}/actions/${action}`, { args } satisfies api.PackActionRequest);

export const fundAccount = (id: string, amountUsd: string, reference: string) =>
  post<api.Balance>(path`/accounts/${id}/fund`, { amountUsd, reference } satisfies api.Funding);
export const closeSession = (id: string) => post<api.Balance>(path`/sessions/${id}/close`);

export const createKey = (request: api.KeyRequest) => post<api.NewKey>("/keys", request);
export const revokeKey = (prefix: string) => remove(path`/keys/${prefix}`);

export const blockPerson = (caller: string, reason: string) =>
  post<api.Person>(path`/people/${caller}/block`, { ...(reason !== "" && { reason }) } satisfies api.BlockPerson);
export const checkClaims = (claims: Record<string, unknown>) => post<api.ClaimsCheck>("/issuers/check", { claims } satisfies api.Claims);
export const unblockPerson = (caller: string) => post<api.Person>(path`/people/${caller}/unblock`);

export const setLink = ({ kind, address }: api.Link) => put<api.Link>(path`/links/${kind}`, { address } satisfies api.SetLink);
export const removeLink = (kind: string) => remove(path`/links/${kind}`);

export const reviewConnection = (server: string, ticket: string, signal?: AbortSignal) =>
  post<api.ConnectionReview>(path`/connections/${server}/review`, ticketOf(ticket), signal);
export const signInToServer = (server: string, ticket: string) => post<api.BegunConnection>(path`/connections/${server}/signin`, ticketOf(ticket));
export const enterKey = (server: string, ticket: string, key: string) =>
  put<undefined>(path`/connections/${server}/key`, { ...ticketOf(ticket), key } satisfies api.ConnectionKey);
export const completeConnection = (response: string) => post<api.ConnectedServer>("/oauth/response", { response } satisfies api.AuthorizationResponse);
export const disconnect = (server: string) => remove(path`/connections/${server}`);

const ticketOf = (ticket: string): api.ConnectionTicket => (ticket === "" ? {} : { ticket });
