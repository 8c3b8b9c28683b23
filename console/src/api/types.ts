// Names for the types in /api/v1. "npm run types" generates the types from docs/openapi.json into
// the folder schema. Money is an exact decimal string, times are RFC 3339 in UTC, and durations are
// numbers whose names end with the unit.
import type { JsonObject, FromJson } from "./json";
import type * as schema from "./schema";

export type { Json, JsonObject } from "./json";

type Query<Data extends { query?: object }> = NonNullable<Data["query"]>;

/** An error response as defined by RFC 9457. */
export type ProblemDetails = schema.Problem;
export type Issue = NonNullable<ProblemDetails["issues"]>[number];

export type SignIn = schema.SignIn;
export type SignedIn = schema.SignedIn;
export type SignInOptions = schema.SignInOptions;
export type BegunSignIn = schema.BegunSignIn;
export type SignInResponse = schema.SignInResponse;
export type Me = schema.Me;

export type Overview = schema.Overview;
export type TrafficFilter = Query<schema.GetTrafficData>;
export type Traffic = schema.Traffic;
export type Minute = Traffic["minutes"][number];

export type ToolFilter = Query<schema.SearchToolsData>;
export type ToolList = FromJson<schema.Tools>;
export type ToolItem = ToolList["tools"][number];
export type Facets = ToolList["facets"];
export type Facet = Facets[string][number];
export type ToolDetail = FromJson<schema.Tool>;
export type GateDecision = ToolDetail["visibility"][number];
export type Step = GateDecision["steps"][number];

export type Problems = schema.Problems;
export type Problem = Problems["problems"][number];

export type CallRequest = FromJson<schema.CallRequest>;
export type CallAnswer = FromJson<schema.CallResult>;
/** A finished call: the tool needs no more input. */
export type CallEnd = CallAnswer & { result: JsonObject };
export type InputRequired = NonNullable<CallAnswer["inputRequired"]>;
export type Answers = NonNullable<CallRequest["answers"]>;

export type CallFilter = Query<schema.ListCallsData>;
export type CallPage = FromJson<schema.Calls>;
export type CallRow = CallPage["calls"][number];
export type CallDetail = FromJson<schema.Call>;

export type LiveFilter = Query<schema.WatchCallsData>;
export type CallBegin = Pick<CallRow, "id" | "at" | "gate" | "mode" | "caller" | "account" | "server" | "tool" | "parent">;
export type LiveCall = CallRow & Pick<CallDetail, "result">;

export type CostFilter = Query<schema.ListCostsData>;
export type Costs = schema.Costs;
export type CostRow = Costs["costs"][number];

export type Servers = schema.Servers;
export type ServerItem = schema.ServerItem;
export type ServerState = ServerItem["state"];
export type ServerDetail = schema.Server;
export type ServerEvent = ServerDetail["events"][number];
export type LatencyStats = NonNullable<ServerDetail["latency"]>[number];
export type Pending = FromJson<schema.Pending>;
export type PendingTool = Pending["pending"][number];
export type PendingKind = PendingTool["kind"];
export type Picks = schema.DefinitionRefs;
export type ToolHash = Picks["tools"][number];
export type Approved = schema.Approved;
export type Rejected = schema.Rejected;

export type ToolsetBody = schema.ToolSelection;
export type ToolsetServer = NonNullable<ToolsetBody["servers"]>[number];
export type Toolsets = schema.Toolsets;
export type Toolset = schema.Toolset;
export type ToolsetChange = schema.PutToolset;
export type ToolsetPreview = schema.Preview;
export type ExportFilter = Query<schema.ExportToolsetData>;
export type ExportFormat = NonNullable<ExportFilter["format"]>;

export type Gates = schema.Gates;
export type Gate = schema.GateItem;
export type GateChange = schema.PutGate;
export type GateDetail = schema.Gate;
export type GateTool = GateDetail["toolList"][number];

export type ApprovalFilter = Query<schema.ListApprovalsData>;
export type ApprovalPage = FromJson<schema.Approvals>;
export type Approval = ApprovalPage["approvals"][number];
export type ApprovalState = Approval["state"];
export type ApproveCall = schema.ApproveCall;
export type DeclineCall = schema.DeclineCall;

export type QueryFilter = Query<schema.ListQueriesData>;
export type QueryPage = schema.Queries;
export type QueryItem = QueryPage["queries"][number];
export type QueryOutcome = QueryItem["outcome"];
export type QueryDetail = FromJson<schema.Query>;
export type Evidence = NonNullable<QueryDetail["answer"]>["evidence"][number];

export type Packs = FromJson<schema.Packs>;
export type Pack = Packs["packs"][number];
export type PackAction = Pack["actions"][number];
export type PackActionRequest = FromJson<schema.PackActionRequest>;
export type PackActionResult = FromJson<schema.PackActionResult>;

export type Price = schema.Price;
export type PriceChange = schema.PutPrice;

export type Edits = schema.Edits;
export type Edit = Edits["edits"][number];
export type EditDetail = schema.Edit;
export type Version = schema.Version;
export type VersionFilter = Query<schema.RemoveToolsetData> & Query<schema.RemoveGateData> & Query<schema.RemovePriceData>;

export type Balance = schema.Balance;
export type AccountFilter = Query<schema.ListAccountsData>;
export type AccountPage = schema.Accounts;
export type Funding = schema.Fund;
export type SessionFilter = Query<schema.ListSessionsData>;
export type SessionPage = schema.Sessions;

export type Connections = schema.Connections;
export type Connection = Connections["connections"][number];
export type ServerConnections = schema.ServerConnections;
export type ServerConnection = ServerConnections["connections"][number];
export type ConnectionTicket = schema.ConnectionTicket;
export type ConnectionReview = schema.ConnectionReview;
export type ConnectionKey = schema.ConnectionKey;
export type BegunConnection = schema.BegunConnection;
export type AuthorizationResponse = schema.AuthorizationResponse;
export type ConnectedServer = schema.ConnectedServer;

export type Links = schema.Links;
export type Link = schema.Link;
export type SetLink = schema.SetLink;

export type Limits = schema.Limits;
export type Limit = Limits["limits"][number];

export type KeyFilter = Query<schema.ListKeysData>;
export type KeyPage = schema.Keys;
export type Key = KeyPage["keys"][number];
export type KeyRequest = schema.CreateKey;
export type NewKey = schema.CreatedKey;

export type PersonFilter = Query<schema.ListPeopleData>;
export type PeoplePage = schema.People;
export type Person = PeoplePage["people"][number];
export type BlockPerson = schema.BlockPerson;
export type Issuers = schema.Issuers;
export type Issuer = Issuers["issuers"][number];
export type ClaimsCheck = schema.ClaimsCheck;
export type Claims = schema.Claims;

export type ChangeFilter = Query<schema.ListChangesData>;
export type ChangePage = FromJson<schema.Changes>;
export type Change = ChangePage["changes"][number];
