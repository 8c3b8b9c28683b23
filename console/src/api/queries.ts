// Options for useQuery and useInfiniteQuery, for every GET request of the API. Query keys start
// with the resource's name: invalidateQueries({queryKey: ["servers"]}) covers the list and every
// single server.
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { reviewConnection } from "./actions";
import { get, path, type Query } from "./client";
import type * as api from "./types";

const second = 1000;

export const queries = {
  me: () => queryOptions({ queryKey: ["me"], queryFn: ({ signal }) => get<api.Me>("/me", {}, signal), staleTime: 300 * second }),

  signIn: () => queryOptions({ queryKey: ["signin", "options"], queryFn: ({ signal }) => get<api.SignInOptions>("/signin", {}, signal), staleTime: 60 * second }),

  overview: () =>
    queryOptions({
      queryKey: ["overview"],
      queryFn: ({ signal }) => get<api.Overview>("/overview", {}, signal),
      staleTime: 5 * second,
      refetchInterval: 10 * second,
    }),

  traffic: (minutes = 60) =>
    queryOptions({
      queryKey: ["traffic", minutes],
      queryFn: ({ signal }) => get<api.Traffic>("/traffic", { minutes } satisfies api.TrafficFilter, signal),
      staleTime: 10 * second,
      refetchInterval: 15 * second,
      placeholderData: keepPreviousData,
    }),

  tools: (filter: api.ToolFilter) =>
    queryOptions({
      queryKey: ["tools", filter],
      queryFn: ({ signal }) => get<api.ToolList>("/tools", filter, signal),
      staleTime: 15 * second,
      placeholderData: keepPreviousData,
    }),

  tool: (source: string, name: string) =>
    queryOptions({
      queryKey: ["tools", source, name],
      queryFn: ({ signal }) => get<api.ToolDetail>(path`/tools/${source}/${name}`, {}, signal),
      staleTime: second,
      refetchInterval: 3 * second, // another operator may be editing it
    }),

  problems: () =>
    queryOptions({
      queryKey: ["problems"],
      queryFn: ({ signal }) => get<api.Problems>("/problems", {}, signal),
      staleTime: 5 * second,
      refetchInterval: 15 * second,
    }),

  calls: (filter: api.CallFilter) =>
    infiniteQueryOptions({
      queryKey: ["calls", "list", filter],
      queryFn: ({ pageParam, signal }) => get<api.CallPage>("/calls", before(filter, pageParam), signal),
      staleTime: 5 * second,
      ...pages,
    }),

  call: (id: string) =>
    queryOptions({
      queryKey: ["calls", "one", id],
      queryFn: ({ signal }) => get<api.CallDetail>(path`/calls/${id}`, {}, signal),
      staleTime: 30 * second,
    }),

  costs: (filter: api.CostFilter) =>
    queryOptions({
      queryKey: ["costs", filter],
      queryFn: ({ signal }) => get<api.Costs>("/costs", filter, signal),
      staleTime: 30 * second,
      placeholderData: keepPreviousData,
    }),

  servers: () =>
    queryOptions({
      queryKey: ["servers", "list"],
      queryFn: ({ signal }) => get<api.Servers>("/servers", {}, signal),
      staleTime: 3 * second,
      refetchInterval: 5 * second,
    }),

  approvals: (filter: api.ApprovalFilter) =>
    queryOptions({
      queryKey: ["approvals", filter],
      queryFn: ({ signal }) => get<api.ApprovalPage>("/approvals", filter, signal),
      staleTime: second,
      refetchInterval: 3 * second,
      placeholderData: keepPreviousData,
    }),

  agentQueries: (filter: api.QueryFilter) =>
    infiniteQueryOptions({
      queryKey: ["queries", "list", filter],
      queryFn: ({ pageParam, signal }) => get<api.QueryPage>("/queries", before(filter, pageParam), signal),
      staleTime: second,
      refetchInterval: 3 * second,
      ...pages,
    }),

  agentQuery: (id: string) =>
    queryOptions({
      queryKey: ["queries", "one", id],
      queryFn: ({ signal }) => get<api.QueryDetail>(path`/queries/${id}`, {}, signal),
      staleTime: second,
      refetchInterval: ({ state }) => (state.data?.outcome === "running" ? second : false),
    }),

  packs: () =>
    queryOptions({
      queryKey: ["packs"],
      queryFn: ({ signal }) => get<api.Packs>("/packs", {}, signal),
      staleTime: 3 * second,
      refetchInterval: 10 * second,
    }),

  server: (id: string) =>
    queryOptions({
      queryKey: ["servers", "one", id],
      queryFn: ({ signal }) => get<api.ServerDetail>(path`/servers/${id}`, {}, signal),
      staleTime: 3 * second,
      refetchInterval: 5 * second,
    }),

  pending: (id: string) =>
    queryOptions({
      queryKey: ["servers", "pending", id],
      queryFn: ({ signal }) => get<api.Pending>(path`/servers/${id}/pending`, {}, signal),
      staleTime: 5 * second,
    }),

  toolsets: () =>
    queryOptions({
      queryKey: ["toolsets", "list"],
      queryFn: ({ signal }) => get<api.Toolsets>("/toolsets", {}, signal),
      staleTime: 10 * second,
    }),

  toolset: (name: string) =>
    queryOptions({
      queryKey: ["toolsets", "one", name],
      queryFn: ({ signal }) => get<api.Toolset>(path`/toolsets/${name}`, {}, signal),
      staleTime: 10 * second,
    }),

  toolsetExport: (name: string, format: api.ExportFormat, gate?: string) =>
    queryOptions({
      queryKey: ["toolsets", "export", name, format, gate],
      queryFn: ({ signal }) => get<api.Json>(path`/toolsets/${name}/export`, { format, gate } satisfies api.ExportFilter, signal),
      staleTime: 10 * second,
    }),

  gates: () =>
    queryOptions({
      queryKey: ["gates", "list"],
      queryFn: ({ signal }) => get<api.Gates>("/gates", {}, signal),
      staleTime: 10 * second,
    }),

  gate: (name: string) =>
    queryOptions({
      queryKey: ["gates", "one", name],
      queryFn: ({ signal }) => get<api.GateDetail>(path`/gates/${name}`, {}, signal),
      staleTime: 10 * second,
    }),

  gateExport: (name: string, format: api.ExportFormat) =>
    queryOptions({
      queryKey: ["gates", "export", name, format],
      queryFn: ({ signal }) => get<api.Json>(path`/gates/${name}/export`, { format } satisfies api.ExportFilter, signal),
      staleTime: 10 * second,
    }),

  price: (source: string, tool: string) =>
    queryOptions({
      queryKey: ["prices", "one", source, tool],
      queryFn: ({ signal }) => get<api.Price>(path`/prices/${source}/${tool}`, {}, signal),
      staleTime: 0, // the form starts with the current value
    }),

  edits: () =>
    queryOptions({
      queryKey: ["edits", "list"],
      queryFn: ({ signal }) => get<api.Edits>("/edits", {}, signal),
      staleTime: 10 * second,
    }),

  edit: (version: number) =>
    queryOptions({
      queryKey: ["edits", "one", version],
      queryFn: ({ signal }) => get<api.EditDetail>(path`/edits/${version}`, {}, signal),
      staleTime: Infinity, // versions are immutable
    }),

  accounts: (filter: api.AccountFilter) =>
    infiniteQueryOptions({
      queryKey: ["accounts", "list", filter],
      queryFn: ({ pageParam, signal }) => get<api.AccountPage>("/accounts", before(filter, pageParam), signal),
      staleTime: 10 * second,
      ...pages,
    }),

  account: () =>
    queryOptions({
      queryKey: ["accounts", "own"],
      queryFn: ({ signal }) => get<api.Balance>("/account", {}, signal),
      staleTime: 10 * second,
      refetchInterval: 30 * second,
    }),

  sessions: (filter: api.SessionFilter) =>
    infiniteQueryOptions({
      queryKey: ["sessions", filter],
      queryFn: ({ pageParam, signal }) => get<api.SessionPage>("/sessions", before(filter, pageParam), signal),
      staleTime: 10 * second,
      ...pages,
    }),

  links: () =>
    queryOptions({
      queryKey: ["links"],
      queryFn: ({ signal }) => get<api.Links>("/links", {}, signal),
      staleTime: 10 * second,
    }),

  connections: () =>
    queryOptions({
      queryKey: ["connections", "list"],
      queryFn: ({ signal }) => get<api.Connections>("/connections", {}, signal),
      staleTime: 5 * second,
    }),

  connectionReview: (server: string, ticket: string) =>
    queryOptions({
      queryKey: ["connections", "review", server, ticket],
      queryFn: ({ signal }) => reviewConnection(server, ticket, signal),
      staleTime: 300 * second,
      retry: false, // another attempt would have the same result, and discovery is slow
    }),

  serverConnections: (server: string) =>
    queryOptions({
      queryKey: ["connections", "people", server],
      queryFn: ({ signal }) => get<api.ServerConnections>(path`/connections/${server}/people`, {}, signal),
      staleTime: 10 * second,
    }),

  limits: () =>
    queryOptions({
      queryKey: ["limits"],
      queryFn: ({ signal }) => get<api.Limits>("/limits", {}, signal),
      staleTime: second,
      refetchInterval: 3 * second,
    }),

  keys: (filter: api.KeyFilter) =>
    infiniteQueryOptions({
      queryKey: ["keys", filter],
      queryFn: ({ pageParam, signal }) => get<api.KeyPage>("/keys", before(filter, pageParam), signal),
      staleTime: 10 * second,
      ...pages,
    }),

  people: (filter: api.PersonFilter) =>
    infiniteQueryOptions({
      queryKey: ["people", filter],
      queryFn: ({ pageParam, signal }) => get<api.PeoplePage>("/people", before(filter, pageParam), signal),
      staleTime: 5 * second,
      ...pages,
    }),

  issuers: () =>
    queryOptions({
      queryKey: ["issuers"],
      queryFn: ({ signal }) => get<api.Issuers>("/issuers", {}, signal),
      staleTime: 5 * second,
      refetchInterval: 15 * second,
    }),

  changes: (filter: api.ChangeFilter) =>
    infiniteQueryOptions({
      queryKey: ["changes", filter],
      queryFn: ({ pageParam, signal }) => get<api.ChangePage>("/changes", before(filter, pageParam), signal),
      staleTime: 5 * second,
      ...pages,
    }),
};

/** Cursor pagination. The previous rows stay visible while a new filter loads. */
const pages = { initialPageParam: "", getNextPageParam: (last: { next?: string }) => last.next, placeholderData: keepPreviousData };

function before<F extends Query & { before?: string }>(filter: F, page: string): F {
  return page === "" ? filter : { ...filter, before: page };
}
