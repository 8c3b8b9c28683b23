// The shapes of /api/v1. Money is an exact decimal as text, times are RFC 3339 in UTC,
// durations are numbers whose names end in their unit.

export type Money = string;
export type Time = string;
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export type Issue = { path: string; message: string };

/** A refusal, as RFC 9457 has it. */
export type ProblemDetails = {
  type?: string;
  title?: string;
  status: number;
  detail?: string;
  error?: string;
  message?: string;
  retryable?: boolean;
  retryAfterMs?: number;
  issues?: Issue[];
};

export type Role = "operator" | "viewer" | "caller" | "anonymous";
export type Me = {
  caller: string;
  account?: string;
  role: Role;
  scopes?: string[];
  yard: string;
  version: string;
  edits: ("toolsets" | "gates")[];
  store: "postgres" | "sqlite" | "memory" | "none";
  keys: boolean;
  arguments: "off" | "shape" | "full";
};

export type PendingKind = "new" | "changed" | "gone" | "refused";
export type TopTool = { server?: string; tool: string; calls: number; errors: number; usd: Money };
export type Overview = {
  yard: string;
  version: string;
  generation: number;
  since: Time;
  store: { kind: string; up: boolean };
  tools: number;
  gates: number;
  servers: { up: number; down: number; starting: number };
  problems: number;
  waiting: number;
  pending: { server: string; tool: string; kind: PendingKind }[];
  today: { calls: number; errors: number; usd: Money };
  top: TopTool[];
  /** Why nothing can be said of today. */
  recordError?: string;
  replica: string;
};
export type Minute = { at: Time; calls: number; errors: number; usd: Money };
export type Traffic = { minutes: Minute[] };

export type Mode = "read" | "write";
export type LatencyClass = "instant" | "fast" | "slow" | "streaming";
export type ToolFilter = {
  q?: string;
  category?: string;
  mode?: string;
  source?: string;
  price?: string;
  latency?: string;
  gate?: string;
  problem?: boolean;
  limit?: number;
  offset?: number;
};
export type ToolItem = {
  server?: string;
  name: string;
  title?: string;
  summary: string;
  category?: string;
  mode: Mode;
  surface: string;
  latencyClass: LatencyClass;
  priceUsd?: Money;
  rateLimit?: JsonObject;
  tokens: number;
  gates: number;
  down?: true;
  problems?: number;
  origin?: string;
};
export type Facet = { value: string; count: number };
export type Facets = Record<"source" | "category" | "mode" | "price" | "latency", Facet[]>;
export type ToolList = { total: number; generation: number; tools: ToolItem[]; facets: Facets };

export type Step = { rule: string; text: string; stops?: true; fails?: true; fix?: string };
export type ToolAt = { gate: string; name: string; visible: boolean; steps: Step[] };
export type LatencyStats = { calls: number; errors: number; p50Ns: number; p95Ns: number; p99Ns: number };
export type ToolDetail = ToolItem & {
  description: string;
  inputSchema?: JsonObject;
  outputSchema?: JsonObject;
  modes: string[];
  needs?: string[];
  meta?: JsonObject;
  file?: string;
  withheld?: true;
  at: ToolAt[];
  problemList?: Problem[];
  latency?: LatencyStats;
};

export type Problem = {
  source?: string;
  subject: string;
  tool?: string;
  file?: string;
  line?: number;
  column?: number;
  message: string;
  fix?: string;
  frame?: string;
};
export type Problems = { problems: Problem[] };

export type CallRequest = {
  tool: string;
  args?: JsonObject;
  gate?: string;
  idempotencyKey?: string;
  session?: string;
};
export type ToolResult = {
  content: JsonObject[];
  structuredContent?: Json;
  isError?: boolean;
  _meta?: JsonObject;
};
export type Receipt = {
  call: string;
  priceUsd: Money;
  purse?: string;
  remainingUsd?: Money;
  spentUsd?: Money;
  replayed?: boolean;
};
export type CallAnswer = { result: ToolResult; receipt?: Receipt; session?: Purse };
export type BatchAnswer = { results: (Partial<CallAnswer> & { problem?: ProblemDetails })[] };

export type CallFilter = {
  account?: string;
  caller?: string;
  session?: string;
  server?: string;
  tool?: string;
  gate?: string;
  code?: string;
  failed?: boolean;
  parent?: string;
  since?: Time;
  until?: Time;
  before?: string;
  limit?: number;
};
export type Mark = { step: string; atNs: number };
export type CallRow = {
  id: string;
  at: Time;
  elapsedNs: number;
  gate: string;
  mode: string;
  caller: string;
  account?: string;
  session?: string;
  server?: string;
  tool: string;
  generation: number;
  code: string;
  priceUsd: Money;
  argsBytes: number;
  resultBytes: number;
  args?: Json;
  parent?: string;
  message?: string;
  marks?: Mark[];
};
export type CallDetail = CallRow & { result?: Json; children: CallRow[] };
export type CallPage = { calls: CallRow[]; next?: string };

export type LiveFilter = Pick<CallFilter, "account" | "caller" | "server" | "tool" | "gate" | "failed">;
export type CallBegin = Pick<CallRow, "id" | "at" | "gate" | "mode" | "caller" | "account" | "server" | "tool" | "parent">;
export type LiveCall = CallRow & { result?: Json };

export type CostFilter = { account?: string; by?: string; since?: Time; until?: Time; top?: number; most?: "usd" | "calls" };
export type CostRow = {
  account?: string;
  server?: string;
  tool?: string;
  day?: string;
  calls: number;
  errors: number;
  charged: number;
  usd: Money;
};
export type Costs = { costs: CostRow[] };
export type LatencyFilter = { account?: string; server?: string; tool?: string; since?: Time; until?: Time };
export type LatencyRow = LatencyStats & { server?: string; tool: string };
export type Latencies = { latencies: LatencyRow[] };

export type ServerState = "up" | "starting" | "down";
export type ServerItem = {
  id: string;
  transport: "stdio" | "http" | "sse";
  target: string;
  state: ServerState;
  since?: Time;
  protocol?: string;
  name?: string;
  version?: string;
  error?: string;
  tools: number;
  waiting: number;
  rejected: number;
  restarts: number;
  required?: true;
  pin: "first" | "approve" | "off";
  problems: number;
};
export type Servers = { servers: ServerItem[] };
export type ServerEventKind = "up" | "down" | "start" | "changed" | "approved" | "rejected";
export type ServerEvent = { at: Time; kind: ServerEventKind; text?: string };
export type ServerDetail = ServerItem & {
  events: ServerEvent[];
  stderr?: string;
  resources: number;
  prompts: number;
  problemList?: Problem[];
  pins: { tool: string; hash: string }[];
  latency?: (LatencyStats & { tool: string })[];
};
export type PendingChange = { path: string; old?: Json; new?: Json };
export type PendingTool = {
  tool: string;
  kind: PendingKind;
  hash: string;
  approved?: JsonObject;
  offered?: JsonObject;
  changes?: PendingChange[];
  /** The definitions as text: numbers that JavaScript cannot hold are exact there. */
  approvedText?: string;
  offeredText?: string;
  refused?: string;
  rejected?: true;
};
export type Pending = { pending: PendingTool[] };
export type ToolHash = { tool: string; hash: string };

export type ToolsetServer = { id: string; tools?: string[]; resources?: string[] };
export type ToolsetBody = { tools?: string[]; servers?: ToolsetServer[] };
export type Toolset = ToolsetBody & { name: string; gates: string[]; from: "file" | "api"; count: number };
export type Toolsets = { toolsets: Toolset[]; version: number; editable: boolean };
export type Weight = { tools: number; tokens: number };
export type ToolsetPreview = {
  count: number;
  tokens: number;
  gates: { gate: string; before: Weight; after: Weight; added: string[]; removed: string[] }[];
  problems: string[];
};
export type ExportFormat = "openai" | "anthropic" | "gemini" | "ai-sdk";

export type GateBody = {
  mode: string;
  surface?: string;
  toolset?: string;
  naming?: string;
  callers?: "anyone" | "keys";
  errors?: string;
};
export type Gate = {
  name: string;
  path: string;
  mode: string;
  surface: string;
  toolset?: string;
  naming: string;
  callers: "anyone" | "keys";
  errors: string;
  from: "file" | "api" | "program";
  tools: number;
  tokens: number;
  problems: number;
};
export type Gates = { gates: Gate[]; version: number; editable: boolean };
export type GateTool = { name: string; server?: string; tool: string; mode: string; tokens: number };
export type GateDetail = Gate & { toolList: GateTool[] };

export type Edit = { version: number; at: Time; by: string; note: string; current?: true };
export type Edits = { edits: Edit[] };
export type EditDetail = Edit & { toolsets: Record<string, Json>; gates: Record<string, Json> };

export type PurseState = "open" | "closed" | "expired";
export type Purse = {
  id: string;
  account: string;
  status: PurseState;
  limitUsd: Money;
  remainingUsd: Money;
  heldUsd: Money;
  spentUsd: Money;
  calls?: number;
  maxCalls?: number;
  expiresAt?: Time;
};
export type Accounts = { accounts: Purse[] };
export type SessionFilter = { account?: string; state?: PurseState; before?: string; limit?: number };
export type SessionPage = { sessions: Purse[]; next?: string };

export type Limit = {
  kind: "server" | "tool";
  server?: string;
  tool?: string;
  name: string;
  perMinute?: number;
  concurrency?: number;
  cooldownMs?: number;
  used?: number;
  running?: number;
  waiting: number;
  nextAt?: Time;
  local?: true;
};
export type Limits = { at: Time; limits: Limit[] };

export type KeyState = "active" | "expired" | "revoked";
export type Key = {
  prefix: string;
  name: string;
  caller: string;
  account: string;
  scopes: string[];
  created: Time;
  expires?: Time;
  revoked?: Time;
  state: KeyState;
};
export type Keys = { keys: Key[] };
export type KeyRequest = { name: string; caller: string; account?: string; scopes?: string[]; ttl?: string };
export type NewKey = { key: Key; token: string };

export type ChangeFilter = { caller?: string; deed?: string; subject?: string; before?: string; limit?: number };
export type Change = {
  id: string;
  at: Time;
  caller: string;
  account?: string;
  deed: string;
  subject: string;
  detail?: JsonObject;
  status: number;
  remote?: string;
};
export type ChangePage = { changes: Change[]; next?: string };
