// Types of the environment in which Toolyard runs tools. Generated for your editor: changes are
// overwritten.
//
// Neither browser nor Node APIs are available, except those declared here.

// ---------------------------------------------------------------------------------------
// Toolyard

declare module "toolyard" {
  /** The second parameter of a tool's function. */
  export interface Context {
    /** The caller; undefined if unauthenticated. */
    readonly authorized?: Authorized;
    /** The kind of gate that the call came through. At "read", nothing may be changed. */
    readonly mode: Mode;
    /** The time the call refers to. Use it instead of the clock, so that backtests work. */
    readonly asOf: Date;
    /** ID of this call in logs and records. */
    readonly requestId: string;
    /** The name of the gate that the call came through. */
    readonly gate: string;
    /** Writes to the log of the call. */
    readonly log: Log;
    /** The tools and resources of the same gate. */
    readonly mcp: Mcp;
    /** Reports progress to the caller. */
    progress(done: number, total?: number, message?: string): void;
    /**
     * Asks the user to confirm something, to fill in a form or to open a page. Without an answer the
     * function ends here; it runs again from the start when the user has answered, so change nothing
     * before the last question. It throws if the client cannot ask its user.
     */
    ask<T = {}>(question: Question<T>): Promise<Reply<T>>;
  }

  export interface Question<T = {}> {
    /** Names the question; different for each one of a call. Default: "answer". */
    key?: string;
    message: string;
    /** The form: a z.object() of strings, numbers, booleans and enums. Without it, the user only confirms. */
    schema?: { readonly _zod: { readonly output: T } } | object;
    /** A page to open instead of a form. */
    url?: string;
    /** What the question depends on. If it has changed when the answer arrives, the user is asked again. */
    bind?: unknown;
    /** Returned with the answer, such as the price that the user saw. The client cannot change it. */
    state?: unknown;
  }

  export interface Reply<T = {}> {
    /** decline: the user said no; cancel: the user made no choice. */
    action: "accept" | "decline" | "cancel";
    accepted: boolean;
    /** Complete only if accepted. */
    form: T;
    state: any;
  }

  export interface Authorized {
    readonly user_id: string;
    readonly account?: string;
    readonly roles: readonly string[];
  }

  export interface Log {
    debug(message: string, data?: unknown): void;
    info(message: string, data?: unknown): void;
    warn(message: string, data?: unknown): void;
    error(message: string, data?: unknown): void;
  }

  /** The first parameter of the hooks of an agent, which cannot call tools. */
  export type HookContext = Pick<Context, "authorized" | "mode" | "asOf" | "requestId" | "gate" | "log">;

  export interface HookMessage {
    role: "user" | "assistant" | "tool";
    content: string;
    tool_calls?: HookToolCall[];
    tool_call_id?: string;
  }

  export interface HookToolCall {
    id: string;
    name: string;
    arguments?: any;
  }

  /** A call that the model requested, with its result or its error. */
  export interface ToolCallResponse {
    toolcall_id: string;
    /** The ID of the MCP server; "" for local tools. */
    server: string;
    tool: string;
    arguments?: any;
    result?: any;
    error?: string;
  }

  /** The second parameter of the hook Next. */
  export interface NextPayload {
    messages: HookMessage[];
    completion: { content: string; tool_calls: HookToolCall[]; usage: { input: number; output: number } };
    tools: ToolCallResponse[];
    error?: string;
  }

  /** What both hooks can return to hand the query over, or to end it. */
  export interface HookDecision {
    /** Hands the query to an agent that delegates lists. */
    delegate?: { agent_id: string; messages: HookMessage[] };
    /** Ends the query with this value as its answer. */
    data?: unknown;
  }

  /** What the hook Create can return. It can narrow what the agent uses, and never widen it. */
  export interface CreateResult extends HookDecision {
    messages?: HookMessage[];
    /** Only these tools; without tools, all of the server. */
    mcp_servers?: { server_id: string; tools?: string[] }[];
    temperature?: number;
    max_tokens?: number;
  }

  /** Runs before the first turn of a query. Export it as Create. */
  export type CreateHook = (ctx: HookContext, messages: HookMessage[]) => CreateResult | null | Promise<CreateResult | null>;
  /** Runs after each turn of a query. Export it as Next. */
  export type NextHook = (ctx: HookContext, payload: NextPayload) => HookDecision | null | Promise<HookDecision | null>;

  /**
   * Tools and resources of the same gate. Calls are subject to the gate's limits and prices. The
   * server "" is this yard. Capitalized methods block; lowercase ones return a promise.
   */
  export interface Mcp {
    ListTools(server?: string): ListedTool[];
    CallTool(server: string, name: string, args?: object): CallResult;
    /** Runs the calls concurrently. Results are in the order of the calls; failed ones have isError. */
    CallToolsParallel(server: string, calls: readonly ToolCall[]): CallResult[];
    ListResources(server: string): ListedResource[];
    ReadResource(server: string, uri: string): ReadResult;

    listTools(server?: string): Promise<ListedTool[]>;
    callTool(server: string, name: string, args?: object): Promise<CallResult>;
    /** Runs the calls concurrently. Results are in the order of the calls; failed ones have isError. */
    callToolsParallel(server: string, calls: readonly ToolCall[]): Promise<CallResult[]>;
    listResources(server: string): Promise<ListedResource[]>;
    readResource(server: string, uri: string): Promise<ReadResult>;
  }

  export interface ListedTool {
    name: string;
    description: string;
    inputSchema: Record<string, unknown>;
  }

  export interface ToolCall {
    name: string;
    arguments?: object;
  }

  /** Result of another tool. */
  export interface CallResult {
    content: Content[];
    structuredContent?: unknown;
    isError?: boolean;
  }

  export interface ListedResource {
    uri: string;
    name: string;
    title?: string;
    description?: string;
    mimeType?: string;
  }

  export interface ReadResult {
    contents: ResourceContents[];
  }

  export interface ResourceContents {
    uri: string;
    mimeType?: string;
    text?: string;
    /** Bytes, in base64. */
    blob?: string;
  }

  export type Content = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource;

  export interface TextContent {
    type: "text";
    text: string;
  }

  export interface ImageContent {
    type: "image";
    /** Bytes, in base64. */
    data: string;
    mimeType: string;
  }

  export interface AudioContent {
    type: "audio";
    /** Bytes, in base64. */
    data: string;
    mimeType: string;
  }

  export interface ResourceLink {
    type: "resource_link";
    uri: string;
    name: string;
    title?: string;
    description?: string;
    mimeType?: string;
  }

  export interface EmbeddedResource {
    type: "resource";
    resource: ResourceContents;
  }

  /** Result of a failed tool. The model reads error and may retry. */
  export interface ErrorResult {
    isError: true;
    error: string;
  }

  /**
   * An error with a code that callers receive. VALIDATION_ERROR and NOT_FOUND tell the model to correct
   * its arguments; RATE_LIMITED and UNAVAILABLE with retryAfterMs mean that nothing ran and that the same
   * call can be repeated. Other codes are your own, in capitals: OUT_OF_STOCK.
   */
  export class ToolError extends Error {
    constructor(message: string, options?: ToolErrorOptions);
    readonly code: string;
  }

  /**
   * Functions that call tools of the same gate, by name: { search: ["github", "search_code"] }, with the
   * server first. They return the data of the result, and throw a ToolError if the call fails.
   */
  export function gateTools<N extends string>(
    ctx: Context,
    names: Record<N, readonly [server: string, tool: string]>,
  ): Record<N, (args?: object) => Promise<any>>;

  export interface ToolErrorOptions {
    code?: ErrorCode | (string & {});
    /** What is wrong with which argument. */
    issues?: readonly { path: string | readonly (string | number)[]; message: string }[];
    /** Only if nothing ran. */
    retryAfterMs?: number;
    cause?: unknown;
  }

  export type ErrorCode =
    | "VALIDATION_ERROR"
    | "NOT_FOUND"
    | "NO_DATA"
    | "UNAVAILABLE"
    | "RATE_LIMITED"
    | "AUTHORIZATION_ERROR"
    | "TOOL_EXECUTION_ERROR";

  /**
   * Result of a tool's function. A string, number or boolean becomes text; an object becomes text
   * and structured content; an array becomes one item for each element; content is passed through
   * unchanged.
   */
  export type ToolResult = string | number | boolean | null | undefined | void | ErrorResult | Content | object | readonly unknown[];

  export type Mode = "read" | "write";

  /** Gates that may offer the tool. A read-only tool declares ["read", "write"]; a tool without modes counts as a write. */
  export type Modes = Mode[];

  /** Permissions of a tool, if the operator grants them in toolyard.yaml. */
  export interface Permissions {
    /** Hosts to fetch from. */
    net?: string[];
    /** Folders to read. */
    read?: string[];
    /** Names of variables in process.env. */
    env?: string[];
  }

  /** Metadata for the platform. Custom keys must contain a slash. */
  export interface Meta {
    rateLimit?: RateLimit;
    /** The kinds of context that the platform puts into the arguments. */
    contextRequirements?: (string | { kind: string; argument: string })[];
    pricing?: Pricing;
    surface?: "answer" | "execute" | "both";
    /** Whether the tool may be used to compose answers. Default: true. */
    queryEligible?: boolean;
    latencyClass?: "instant" | "fast" | "slow" | "streaming";
    [key: `${string}/${string}`]: unknown;
  }

  export interface RateLimit {
    maxRequestsPerMinute?: number;
    cooldownMs?: number;
    maxConcurrency?: number;
    supportsBulk?: boolean;
    recommendedBatchTools?: string[];
    notes?: string;
  }

  export interface Pricing {
    /** US dollars for one call, such as "0.001"; null when the tool is not for sale. */
    executeUsd: string | null;
  }

  /** The caller that a context provider is called for. */
  export interface Caller {
    /** Empty for an unauthenticated caller. */
    id: string;
    account: string;
    roles: string[];
    /** Links of the caller, by kind. */
    links: Record<string, string>;
  }

  /** The default export of a context provider. Null means that there is no data about the caller. */
  export type ContextProvider = (caller: Caller, asOf: Date) => object | null | Promise<object | null>;
}

declare module "ai" {
  import type { Context } from "toolyard";
  import type { z } from "zod";

  export interface Tool<Input extends z.ZodType = z.ZodType, Output = unknown> {
    title?: string;
    description: string;
    inputSchema: Input;
    outputSchema?: z.ZodType<Output>;
    execute(args: z.output<Input>, ctx: Context): Output | Promise<Output>;
  }

  /** Returns its argument with inferred types. */
  export function tool<Input extends z.ZodType, Output>(tool: Tool<Input, Output>): Tool<Input, Output>;
}

declare module "toolyard/test" {
  import type { Authorized, CallResult, Context, ReadResult } from "toolyard";

  export interface TestContext {
    readonly name: string;
    /** Ends the test; it counts as skipped. */
    skip(reason?: string): never;
    after(f: () => unknown): void;
  }
  type TestFunction = (t: TestContext) => unknown;
  type Each = {
    <T extends [unknown, ...unknown[]]>(rows: readonly T[]): (name: string, f: (...row: T) => unknown, timeout?: number) => void;
    <T>(rows: readonly T[]): (name: string, f: (row: T) => unknown, timeout?: number) => void;
  };
  interface Test {
    (name: string, f: TestFunction, timeout?: number): void;
    skip(name: string, f?: TestFunction): void;
    only(name: string, f: TestFunction, timeout?: number): void;
    todo(name: string): void;
    each: Each;
  }
  interface Describe {
    (name: string, f: () => void): void;
    skip(name: string, f: () => void): void;
    only(name: string, f: () => void): void;
    each: Each;
  }
  export const test: Test;
  export const it: Test;
  export const describe: Describe;
  export const suite: Describe;
  export function beforeAll(f: () => unknown): void;
  export function afterAll(f: () => unknown): void;
  export function beforeEach(f: () => unknown): void;
  export function afterEach(f: () => unknown): void;

  interface Matchers<R> {
    toBe(expected: unknown): R;
    toEqual(expected: unknown): R;
    toStrictEqual(expected: unknown): R;
    toMatchObject(expected: object): R;
    toBeTruthy(): R;
    toBeFalsy(): R;
    toBeNull(): R;
    toBeUndefined(): R;
    toBeDefined(): R;
    toBeNullish(): R;
    toBeNaN(): R;
    toBeGreaterThan(n: number | bigint): R;
    toBeGreaterThanOrEqual(n: number | bigint): R;
    toBeLessThan(n: number | bigint): R;
    toBeLessThanOrEqual(n: number | bigint): R;
    toBeCloseTo(n: number, digits?: number): R;
    toBeInstanceOf(type: abstract new (...args: any[]) => unknown): R;
    toBeTypeOf(type: string): R;
    toBeOneOf(list: Iterable<unknown>): R;
    toHaveLength(n: number): R;
    toContain(item: unknown): R;
    toContainEqual(item: unknown): R;
    toMatch(pattern: string | RegExp): R;
    toHaveProperty(path: string | readonly (string | number)[], value?: unknown): R;
    toSatisfy(f: (value: any) => unknown): R;
    toThrow(expected?: string | RegExp | Error | object | (abstract new (...args: any[]) => unknown)): R;
    toHaveBeenCalled(): R;
    toHaveBeenCalledOnce(): R;
    toHaveBeenCalledTimes(n: number): R;
    toHaveBeenCalledWith(...args: unknown[]): R;
    toHaveBeenLastCalledWith(...args: unknown[]): R;
    toHaveBeenNthCalledWith(n: number, ...args: unknown[]): R;
  }
  type Assertion<R> = Matchers<R> & { not: Matchers<R> };
  interface Asymmetric {
    objectContaining(o: object): any;
    arrayContaining(list: readonly unknown[]): any;
    stringContaining(text: string): any;
    stringMatching(pattern: string | RegExp): any;
    closeTo(n: number, digits?: number): any;
  }
  interface Expect extends Asymmetric {
    (actual: unknown, note?: string): Assertion<void> & { resolves: Assertion<Promise<void>>; rejects: Assertion<Promise<void>> };
    not: Asymmetric;
    any(type: unknown): any;
    anything(): any;
    assertions(n: number): void;
    hasAssertions(): void;
    fail(message?: string): never;
  }
  export const expect: Expect;

  /** A function that records its calls. */
  export interface Mock<F extends (...args: any[]) => any> {
    (...args: Parameters<F>): ReturnType<F>;
    readonly mock: {
      readonly calls: Parameters<F>[];
      readonly results: { type: "return" | "throw"; value: any }[];
      readonly lastCall: Parameters<F> | undefined;
    };
    mockImplementation(f: F): this;
    mockImplementationOnce(f: F): this;
    mockReturnValue(value: ReturnType<F>): this;
    mockReturnValueOnce(value: ReturnType<F>): this;
    mockResolvedValue(value: Awaited<ReturnType<F>>): this;
    mockResolvedValueOnce(value: Awaited<ReturnType<F>>): this;
    mockRejectedValue(error: unknown): this;
    mockRejectedValueOnce(error: unknown): this;
    mockClear(): this;
    mockReset(): this;
    mockRestore(): void;
  }
  export function fn<F extends (...args: any[]) => any = (...args: any[]) => any>(f?: F): Mock<F>;
  export function spyOn<T extends object, K extends keyof T>(object: T, name: K): Mock<Extract<T[K], (...args: any[]) => any>>;
  /** Replaces a global, such as fetch. */
  export function stubGlobal(name: string, value: unknown): void;
  /** Sets a variable of process.env. */
  export function stubEnv(name: string, value: string | undefined): void;
  /** Sets the current time; without an argument, the clock is real again. */
  export function setTime(time?: Date | string | number): void;
  export const vi: {
    fn: typeof fn;
    spyOn: typeof spyOn;
    stubGlobal: typeof stubGlobal;
    stubEnv: typeof stubEnv;
    setSystemTime: typeof setTime;
    mocked<T>(value: T): any;
    clearAllMocks(): void;
    resetAllMocks(): void;
    restoreAllMocks(): void;
  };

  /** A tool that ctx.mcp calls in a test. */
  type FakeTool = (args: any) => unknown;

  export interface ContextOptions {
    /** The caller; user is short for its user_id. */
    authorized?: Authorized;
    user?: string;
    mode?: "read" | "write";
    gate?: string;
    requestId?: string;
    /** The as-of time; now by default. */
    asOf?: Date | string | number;
    /** Tools and resources of the yard itself, for ctx.mcp. */
    tools?: Record<string, FakeTool>;
    resources?: Record<string, string | ReadResult>;
    /** Tools and resources of servers, by the id of the server. */
    servers?: Record<string, { tools?: Record<string, FakeTool>; resources?: Record<string, string | ReadResult> }>;
    /** Answers of ctx.ask, by the key of the question: true, false, a form, or { action, form }. */
    answers?: Record<string, boolean | object>;
    /** Anything else becomes a member of the context. */
    [member: string]: unknown;
  }
  /** Returns a context for the function of a tool. Its log and progress are mocks. */
  export function context<T extends ContextOptions>(options?: T): Context & Omit<T, keyof ContextOptions>;

  /**
   * Calls a tool as Toolyard does, and returns what a client receives: the arguments are validated and
   * completed, the result is checked and converted, and errors are results. The tool is its module
   * (import * as hello from "./hello") or an object with description, inputSchema and execute.
   */
  export function call(tool: object, args?: object, ctx?: object): Promise<CallResult & { _meta?: Record<string, any> }>;
}

// ---------------------------------------------------------------------------------------
// Globals

interface Console {
  assert(condition?: unknown, ...data: unknown[]): void;
  count(label?: string): void;
  countReset(label?: string): void;
  debug(...data: unknown[]): void;
  dir(item?: unknown, options?: import("node:util").InspectOptions): void;
  dirxml(...data: unknown[]): void;
  error(...data: unknown[]): void;
  group(...data: unknown[]): void;
  groupCollapsed(...data: unknown[]): void;
  groupEnd(): void;
  info(...data: unknown[]): void;
  log(...data: unknown[]): void;
  table(data?: unknown, columns?: string[]): void;
  time(label?: string): void;
  timeEnd(label?: string): void;
  timeLog(label?: string, ...data: unknown[]): void;
  trace(...data: unknown[]): void;
  warn(...data: unknown[]): void;
}
/** Writes to the log of the call. */
declare var console: Console;

interface Timeout {
  close(): this;
  hasRef(): boolean;
  ref(): this;
  refresh(): this;
  unref(): this;
  [Symbol.toPrimitive](): number;
  [Symbol.dispose](): void;
}
declare function setTimeout<A extends unknown[]>(run: (...args: A) => void, ms?: number, ...args: A): Timeout;
/** For the function resolve of a promise, whose argument is optional. */
declare function setTimeout(run: (_: any) => void, ms?: number): Timeout;
declare function setInterval<A extends unknown[]>(run: (...args: A) => void, ms?: number, ...args: A): Timeout;
declare function setImmediate<A extends unknown[]>(run: (...args: A) => void, ...args: A): Timeout;
declare function clearTimeout(timer: Timeout | number | null | undefined): void;
declare function clearInterval(timer: Timeout | number | null | undefined): void;
declare function clearImmediate(timer: Timeout | number | null | undefined): void;
declare function queueMicrotask(run: () => void): void;
declare function structuredClone<T>(value: T, options?: { transfer?: ArrayBuffer[] }): T;
/** Decodes base64 into a string of bytes. */
declare function atob(data: string): string;
/** Encodes a string of bytes as base64. */
declare function btoa(data: string): string;

interface PerformanceEntry {
  readonly name: string;
  readonly entryType: string;
  readonly startTime: number;
  readonly duration: number;
  readonly detail: unknown;
}
interface Performance {
  readonly timeOrigin: number;
  now(): number;
  mark(name: string, options?: { startTime?: number; detail?: unknown }): PerformanceEntry;
  measure(name: string, start?: number | { start?: number; end?: number; detail?: unknown }, end?: number): PerformanceEntry;
  toJSON(): unknown;
}
declare var performance: Performance;

interface DOMException extends Error {
  readonly code: number;
}
declare var DOMException: {
  readonly prototype: DOMException;
  new (message?: string, name?: string): DOMException;
};

type BufferSource = ArrayBufferView | ArrayBuffer;

interface TextEncoder {
  readonly encoding: "utf-8";
  encode(input?: string): Uint8Array<ArrayBuffer>;
  encodeInto(source: string, destination: Uint8Array): { read: number; written: number };
}
declare var TextEncoder: {
  readonly prototype: TextEncoder;
  new (): TextEncoder;
};

interface TextDecoder {
  readonly encoding: string;
  readonly fatal: boolean;
  readonly ignoreBOM: boolean;
  decode(input?: BufferSource, options?: { stream?: boolean }): string;
}
declare var TextDecoder: {
  readonly prototype: TextDecoder;
  new (label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean }): TextDecoder;
};

interface URL {
  hash: string;
  host: string;
  hostname: string;
  href: string;
  readonly origin: string;
  password: string;
  pathname: string;
  port: string;
  protocol: string;
  search: string;
  readonly searchParams: URLSearchParams;
  username: string;
  toJSON(): string;
  toString(): string;
}
declare var URL: {
  readonly prototype: URL;
  new (url: string | URL, base?: string | URL): URL;
  canParse(url: string | URL, base?: string | URL): boolean;
  parse(url: string | URL, base?: string | URL): URL | null;
};

interface URLSearchParams {
  readonly size: number;
  append(name: string, value: string): void;
  delete(name: string, value?: string): void;
  get(name: string): string | null;
  getAll(name: string): string[];
  has(name: string, value?: string): boolean;
  set(name: string, value: string): void;
  sort(): void;
  forEach(visit: (value: string, name: string, parent: URLSearchParams) => void): void;
  entries(): IteratorObject<[string, string], undefined>;
  keys(): IteratorObject<string, undefined>;
  values(): IteratorObject<string, undefined>;
  [Symbol.iterator](): IteratorObject<[string, string], undefined>;
  toString(): string;
}
declare var URLSearchParams: {
  readonly prototype: URLSearchParams;
  new (init?: string | Iterable<readonly [string, string]> | Record<string, string> | URLSearchParams): URLSearchParams;
};

interface EventInit {
  bubbles?: boolean;
  cancelable?: boolean;
  composed?: boolean;
}
interface Event {
  readonly bubbles: boolean;
  readonly cancelable: boolean;
  readonly composed: boolean;
  readonly currentTarget: EventTarget | null;
  readonly defaultPrevented: boolean;
  readonly target: EventTarget | null;
  readonly timeStamp: number;
  readonly type: string;
  preventDefault(): void;
  stopImmediatePropagation(): void;
  stopPropagation(): void;
}
declare var Event: {
  readonly prototype: Event;
  new (type: string, init?: EventInit): Event;
};

interface CustomEvent<T = any> extends Event {
  readonly detail: T;
}
declare var CustomEvent: {
  readonly prototype: CustomEvent;
  new <T>(type: string, init?: EventInit & { detail?: T }): CustomEvent<T>;
};

type EventListenerOrObject = ((event: Event) => void) | { handleEvent(event: Event): void };
interface EventTarget {
  addEventListener(
    type: string,
    listener: EventListenerOrObject | null,
    options?: boolean | { capture?: boolean; once?: boolean; passive?: boolean; signal?: AbortSignal },
  ): void;
  removeEventListener(type: string, listener: EventListenerOrObject | null, options?: boolean | { capture?: boolean }): void;
  dispatchEvent(event: Event): boolean;
}
declare var EventTarget: {
  readonly prototype: EventTarget;
  new (): EventTarget;
};

interface AbortSignal extends EventTarget {
  readonly aborted: boolean;
  readonly reason: any;
  onabort: ((event: Event) => void) | null;
  throwIfAborted(): void;
}
declare var AbortSignal: {
  readonly prototype: AbortSignal;
  abort(reason?: unknown): AbortSignal;
  any(signals: Iterable<AbortSignal>): AbortSignal;
  timeout(ms: number): AbortSignal;
};

interface AbortController {
  readonly signal: AbortSignal;
  abort(reason?: unknown): void;
}
declare var AbortController: {
  readonly prototype: AbortController;
  new (): AbortController;
};

/** A stream of bytes. */
interface ByteStream extends AsyncIterable<Uint8Array<ArrayBuffer>> {
  readonly locked: boolean;
  cancel(): Promise<void>;
  getReader(): {
    cancel(): Promise<void>;
    read(): Promise<{ done: false; value: Uint8Array<ArrayBuffer> } | { done: true; value?: undefined }>;
    releaseLock(): void;
  };
  tee(): [ByteStream, ByteStream];
}

interface Blob {
  readonly size: number;
  readonly type: string;
  arrayBuffer(): Promise<ArrayBuffer>;
  bytes(): Promise<Uint8Array<ArrayBuffer>>;
  slice(start?: number, end?: number, type?: string): Blob;
  stream(): ByteStream;
  text(): Promise<string>;
}
declare var Blob: {
  readonly prototype: Blob;
  new (parts?: Iterable<string | BufferSource | Blob>, options?: { type?: string }): Blob;
};

interface File extends Blob {
  readonly lastModified: number;
  readonly name: string;
}
declare var File: {
  readonly prototype: File;
  new (parts: Iterable<string | BufferSource | Blob>, name: string, options?: { type?: string; lastModified?: number }): File;
};

interface FormData {
  append(name: string, value: string): void;
  append(name: string, value: Blob, filename?: string): void;
  delete(name: string): void;
  get(name: string): string | File | null;
  getAll(name: string): (string | File)[];
  has(name: string): boolean;
  set(name: string, value: string): void;
  set(name: string, value: Blob, filename?: string): void;
  forEach(visit: (value: string | File, name: string, parent: FormData) => void): void;
  entries(): IteratorObject<[string, string | File], undefined>;
  keys(): IteratorObject<string, undefined>;
  values(): IteratorObject<string | File, undefined>;
  [Symbol.iterator](): IteratorObject<[string, string | File], undefined>;
}
declare var FormData: {
  readonly prototype: FormData;
  new (): FormData;
};

type HeadersInit = Headers | Iterable<readonly [string, string]> | Record<string, string>;
interface Headers {
  append(name: string, value: string): void;
  delete(name: string): void;
  get(name: string): string | null;
  getSetCookie(): string[];
  has(name: string): boolean;
  set(name: string, value: string): void;
  forEach(visit: (value: string, name: string, parent: Headers) => void): void;
  entries(): IteratorObject<[string, string], undefined>;
  keys(): IteratorObject<string, undefined>;
  values(): IteratorObject<string, undefined>;
  [Symbol.iterator](): IteratorObject<[string, string], undefined>;
}
declare var Headers: {
  readonly prototype: Headers;
  new (init?: HeadersInit): Headers;
};

type BodyInit = string | BufferSource | Blob | FormData | URLSearchParams;
interface Body {
  readonly body: ByteStream | null;
  readonly bodyUsed: boolean;
  arrayBuffer(): Promise<ArrayBuffer>;
  blob(): Promise<Blob>;
  bytes(): Promise<Uint8Array<ArrayBuffer>>;
  /** For application/x-www-form-urlencoded only. */
  formData(): Promise<FormData>;
  json(): Promise<any>;
  text(): Promise<string>;
}

interface RequestInit {
  body?: BodyInit | null;
  headers?: HeadersInit;
  method?: string;
  redirect?: "follow" | "error" | "manual";
  signal?: AbortSignal | null;
}
interface Request extends Body {
  readonly headers: Headers;
  readonly method: string;
  readonly redirect: "follow" | "error" | "manual";
  readonly signal: AbortSignal;
  readonly url: string;
  clone(): Request;
}
declare var Request: {
  readonly prototype: Request;
  new (input: string | URL | Request, init?: RequestInit): Request;
};

interface ResponseInit {
  headers?: HeadersInit;
  status?: number;
  statusText?: string;
}
interface Response extends Body {
  readonly headers: Headers;
  /** Whether the status is from 200 to 299. */
  readonly ok: boolean;
  readonly redirected: boolean;
  readonly status: number;
  readonly statusText: string;
  readonly type: string;
  readonly url: string;
  clone(): Response;
}
declare var Response: {
  readonly prototype: Response;
  new (body?: BodyInit | null, init?: ResponseInit): Response;
  error(): Response;
  json(data: unknown, init?: ResponseInit): Response;
  redirect(url: string | URL, status?: number): Response;
};

/** Fetches from a host that is granted to the tool. A status such as 404 is not an error: check ok. */
declare function fetch(input: string | URL | Request, init?: RequestInit): Promise<Response>;

type DigestName = "SHA-1" | "SHA-256" | "SHA-384" | "SHA-512";
type HmacParams = { name: "HMAC"; hash: DigestName | { name: DigestName }; length?: number };
type KeyUse = "sign" | "verify";
interface CryptoKey {
  readonly type: "secret";
  readonly extractable: boolean;
  readonly algorithm: { name: "HMAC"; hash: { name: DigestName }; length: number };
  readonly usages: KeyUse[];
}
interface SubtleCrypto {
  digest(algorithm: DigestName | { name: DigestName }, data: BufferSource): Promise<ArrayBuffer>;
  importKey(format: "raw", key: BufferSource, algorithm: HmacParams, extractable: boolean, usages: KeyUse[]): Promise<CryptoKey>;
  sign(algorithm: "HMAC" | { name: "HMAC" }, key: CryptoKey, data: BufferSource): Promise<ArrayBuffer>;
  verify(algorithm: "HMAC" | { name: "HMAC" }, key: CryptoKey, signature: BufferSource, data: BufferSource): Promise<boolean>;
}
type IntegerArray =
  | Int8Array | Int16Array | Int32Array | BigInt64Array
  | Uint8Array | Uint8ClampedArray | Uint16Array | Uint32Array | BigUint64Array;
interface Crypto {
  readonly subtle: SubtleCrypto;
  /** Fills an array of integers, of 65,536 bytes at most. */
  getRandomValues<T extends IntegerArray>(array: T): T;
  randomUUID(): `${string}-${string}-${string}-${string}-${string}`;
}
declare var crypto: Crypto;

type Buffer = import("node:buffer").Buffer;
declare var Buffer: typeof import("node:buffer").Buffer;

interface Process {
  /** The variables that are granted to the tool, and no others. */
  readonly env: Readonly<Record<string, string | undefined>>;
}
declare var process: Process;

// ---------------------------------------------------------------------------------------
// Node modules that are available, in part

declare module "node:buffer" {
  export type BufferEncoding = "utf8" | "utf-8" | "ascii" | "latin1" | "binary" | "base64" | "base64url" | "hex" | "utf16le" | "ucs2";

  export interface Buffer extends Uint8Array<ArrayBuffer> {
    compare(other: Uint8Array): -1 | 0 | 1;
    copy(target: Uint8Array, targetStart?: number, start?: number, end?: number): number;
    equals(other: Uint8Array): boolean;
    fill(value: string | number | Uint8Array, start?: number, end?: number, encoding?: BufferEncoding): this;
    includes(value: string | number | Uint8Array, offset?: number, encoding?: BufferEncoding): boolean;
    indexOf(value: string | number | Uint8Array, offset?: number, encoding?: BufferEncoding): number;
    lastIndexOf(value: string | number | Uint8Array, offset?: number, encoding?: BufferEncoding): number;
    slice(start?: number, end?: number): Buffer;
    subarray(start?: number, end?: number): Buffer;
    toJSON(): { type: "Buffer"; data: number[] };
    toString(encoding?: BufferEncoding, start?: number, end?: number): string;
    write(text: string, encoding?: BufferEncoding): number;
    write(text: string, offset: number, encoding?: BufferEncoding): number;
    write(text: string, offset: number, length: number, encoding?: BufferEncoding): number;
    readUInt8(offset?: number): number;
    readInt8(offset?: number): number;
    readUInt16LE(offset?: number): number;
    readUInt16BE(offset?: number): number;
    readInt16LE(offset?: number): number;
    readInt16BE(offset?: number): number;
    readUInt32LE(offset?: number): number;
    readUInt32BE(offset?: number): number;
    readInt32LE(offset?: number): number;
    readInt32BE(offset?: number): number;
    readBigUInt64LE(offset?: number): bigint;
    readBigUInt64BE(offset?: number): bigint;
    readBigInt64LE(offset?: number): bigint;
    readBigInt64BE(offset?: number): bigint;
    readFloatLE(offset?: number): number;
    readFloatBE(offset?: number): number;
    readDoubleLE(offset?: number): number;
    readDoubleBE(offset?: number): number;
    writeUInt8(value: number, offset?: number): number;
    writeInt8(value: number, offset?: number): number;
    writeUInt16LE(value: number, offset?: number): number;
    writeUInt16BE(value: number, offset?: number): number;
    writeInt16LE(value: number, offset?: number): number;
    writeInt16BE(value: number, offset?: number): number;
    writeUInt32LE(value: number, offset?: number): number;
    writeUInt32BE(value: number, offset?: number): number;
    writeInt32LE(value: number, offset?: number): number;
    writeInt32BE(value: number, offset?: number): number;
    writeBigUInt64LE(value: bigint, offset?: number): number;
    writeBigUInt64BE(value: bigint, offset?: number): number;
    writeBigInt64LE(value: bigint, offset?: number): number;
    writeBigInt64BE(value: bigint, offset?: number): number;
    writeFloatLE(value: number, offset?: number): number;
    writeFloatBE(value: number, offset?: number): number;
    writeDoubleLE(value: number, offset?: number): number;
    writeDoubleBE(value: number, offset?: number): number;
  }
  export const Buffer: {
    readonly prototype: Buffer;
    alloc(size: number, fill?: string | number | Uint8Array, encoding?: BufferEncoding): Buffer;
    allocUnsafe(size: number): Buffer;
    byteLength(data: string | BufferSource, encoding?: BufferEncoding): number;
    compare(a: Uint8Array, b: Uint8Array): -1 | 0 | 1;
    concat(list: readonly Uint8Array[], length?: number): Buffer;
    from(text: string, encoding?: BufferEncoding): Buffer;
    from(bytes: Iterable<number> | ArrayLike<number>): Buffer;
    from(buffer: ArrayBuffer, offset?: number, length?: number): Buffer;
    isBuffer(value: unknown): value is Buffer;
    isEncoding(name: string): name is BufferEncoding;
  };

  const Blob_: typeof Blob;
  const File_: typeof File;
  const atob_: typeof atob;
  const btoa_: typeof btoa;
  export { Blob_ as Blob, File_ as File, atob_ as atob, btoa_ as btoa };
  const module: typeof import("node:buffer");
  export default module;
}

declare module "node:fs" {
  import type { BufferEncoding } from "node:buffer";

  type Path = string | URL | Buffer;
  type Encoding = BufferEncoding | { encoding: BufferEncoding };
  type NoEncoding = null | { encoding?: null };

  export interface Stats {
    readonly size: number;
    readonly mode: number;
    readonly mtimeMs: number;
    readonly mtime: Date;
    isDirectory(): boolean;
    isFile(): boolean;
    isSymbolicLink(): boolean;
  }
  export interface Dirent {
    readonly name: string;
    readonly parentPath: string;
    isDirectory(): boolean;
    isFile(): boolean;
    isSymbolicLink(): boolean;
  }

  export function accessSync(path: Path, mode?: number): void;
  export function existsSync(path: Path): boolean;
  export function lstatSync(path: Path): Stats;
  export function readFileSync(path: Path, encoding: Encoding): string;
  export function readFileSync(path: Path, options?: NoEncoding): Buffer;
  export function readdirSync(path: Path, options: { withFileTypes: true; recursive?: boolean }): Dirent[];
  export function readdirSync(path: Path, options?: BufferEncoding | { withFileTypes?: false; recursive?: boolean }): string[];
  export function realpathSync(path: Path): string;
  export function statSync(path: Path): Stats;
  export const constants: { readonly F_OK: 0; readonly R_OK: 4; readonly W_OK: 2; readonly X_OK: 1 };
  export const promises: typeof import("node:fs/promises");
  const module: typeof import("node:fs");
  export default module;
}

declare module "node:fs/promises" {
  import type { BufferEncoding } from "node:buffer";
  import type { Dirent, Stats } from "node:fs";

  type Path = string | URL | Buffer;
  type Encoding = BufferEncoding | { encoding: BufferEncoding };
  type NoEncoding = null | { encoding?: null };

  export function access(path: Path, mode?: number): Promise<void>;
  export function lstat(path: Path): Promise<Stats>;
  export function readFile(path: Path, encoding: Encoding): Promise<string>;
  export function readFile(path: Path, options?: NoEncoding): Promise<Buffer>;
  export function readdir(path: Path, options: { withFileTypes: true; recursive?: boolean }): Promise<Dirent[]>;
  export function readdir(path: Path, options?: BufferEncoding | { withFileTypes?: false; recursive?: boolean }): Promise<string[]>;
  export function realpath(path: Path): Promise<string>;
  export function stat(path: Path): Promise<Stats>;
  export const constants: (typeof import("node:fs"))["constants"];
  const module: typeof import("node:fs/promises");
  export default module;
}

declare module "node:path" {
  export interface ParsedPath {
    root: string;
    dir: string;
    base: string;
    ext: string;
    name: string;
  }
  export function basename(path: string, suffix?: string): string;
  export function dirname(path: string): string;
  export function extname(path: string): string;
  export function format(path: Partial<ParsedPath>): string;
  export function isAbsolute(path: string): boolean;
  export function join(...parts: string[]): string;
  export function normalize(path: string): string;
  export function parse(path: string): ParsedPath;
  export function relative(from: string, to: string): string;
  export function resolve(...parts: string[]): string;
  export const delimiter: string;
  export const sep: string;
  export const posix: typeof import("node:path");
  const module: typeof import("node:path");
  export default module;
}

declare module "node:crypto" {
  import type { BufferEncoding } from "node:buffer";

  type Data = string | ArrayBufferView;
  type Algorithm = "md5" | "sha1" | "sha256" | "sha384" | "sha512";
  type Output = "hex" | "base64" | "base64url" | "latin1" | "binary";

  export interface Hash {
    update(data: Data, encoding?: BufferEncoding): this;
    digest(): Buffer;
    digest(encoding: Output): string;
  }
  export interface Hmac extends Hash {}

  export function createHash(algorithm: Algorithm): Hash;
  export function createHmac(algorithm: Algorithm, key: Data): Hmac;
  export function getRandomValues<T extends IntegerArray>(array: T): T;
  export function randomBytes(size: number): Buffer;
  export function randomInt(max: number): number;
  export function randomInt(min: number, max: number): number;
  export function randomUUID(): ReturnType<Crypto["randomUUID"]>;
  export function timingSafeEqual(a: BufferSource, b: BufferSource): boolean;
  export const subtle: SubtleCrypto;
  export const webcrypto: Crypto;
  const module: typeof import("node:crypto");
  export default module;
}

declare module "node:util" {
  export interface InspectOptions {
    breakLength?: number;
    colors?: boolean;
    compact?: boolean | number;
    depth?: number | null;
    maxArrayLength?: number | null;
    maxStringLength?: number | null;
    showHidden?: boolean;
    sorted?: boolean;
  }
  export function format(format?: unknown, ...values: unknown[]): string;
  export function inspect(value: unknown, options?: InspectOptions): string;
  export function isDeepStrictEqual(a: unknown, b: unknown): boolean;
  export function promisify<A extends unknown[], R>(
    f: (...args: [...A, (error: any, value: R) => void]) => void,
  ): (...args: A) => Promise<R>;
  export function callbackify<A extends unknown[], R>(
    f: (...args: A) => Promise<R>,
  ): (...args: [...A, (error: any, value: R) => void]) => void;
  export const types: {
    isArrayBuffer(value: unknown): value is ArrayBuffer;
    isDate(value: unknown): value is Date;
    isMap(value: unknown): value is Map<unknown, unknown>;
    isNativeError(value: unknown): value is Error;
    isPromise(value: unknown): value is Promise<unknown>;
    isRegExp(value: unknown): value is RegExp;
    isSet(value: unknown): value is Set<unknown>;
    isTypedArray(value: unknown): value is IntegerArray | Float32Array | Float64Array;
    isUint8Array(value: unknown): value is Uint8Array;
  };
  const TextEncoder_: typeof TextEncoder;
  const TextDecoder_: typeof TextDecoder;
  export { TextEncoder_ as TextEncoder, TextDecoder_ as TextDecoder };
  const module: typeof import("node:util");
  export default module;
}

declare module "node:process" {
  export const env: Process["env"];
  const module: Process;
  export default module;
}

declare module "node:url" {
  export function fileURLToPath(url: string | URL): string;
  export function pathToFileURL(path: string): URL;
  const URL_: typeof URL;
  const URLSearchParams_: typeof URLSearchParams;
  export { URL_ as URL, URLSearchParams_ as URLSearchParams };
  const module: typeof import("node:url");
  export default module;
}

declare module "node:os" {
  export const EOL: string;
  export function arch(): string;
  export function platform(): string;
  export function type(): string;
  const module: typeof import("node:os");
  export default module;
}

declare module "node:timers" {
  const setTimeout_: typeof setTimeout;
  const setInterval_: typeof setInterval;
  const setImmediate_: typeof setImmediate;
  const clearTimeout_: typeof clearTimeout;
  const clearInterval_: typeof clearInterval;
  const clearImmediate_: typeof clearImmediate;
  export { setTimeout_ as setTimeout, setInterval_ as setInterval, setImmediate_ as setImmediate };
  export { clearTimeout_ as clearTimeout, clearInterval_ as clearInterval, clearImmediate_ as clearImmediate };
  const module: typeof import("node:timers");
  export default module;
}

declare module "node:timers/promises" {
  interface Options {
    signal?: AbortSignal;
  }
  export function setTimeout<T = void>(ms?: number, value?: T, options?: Options): Promise<T>;
  export function setImmediate<T = void>(value?: T, options?: Options): Promise<T>;
  export function setInterval<T = void>(ms?: number, value?: T, options?: Options): AsyncIterable<T>;
  const module: typeof import("node:timers/promises");
  export default module;
}

declare module "node:perf_hooks" {
  const performance_: Performance;
  export { performance_ as performance };
  const module: typeof import("node:perf_hooks");
  export default module;
}

declare module "node:querystring" {
  type Value = string | number | bigint | boolean | null | undefined;
  export function escape(text: string): string;
  export function parse(query: string, separator?: string, equals?: string): Record<string, string | string[] | undefined>;
  export function stringify(values: Record<string, Value | readonly Value[]>, separator?: string, equals?: string): string;
  export function unescape(text: string): string;
  const module: typeof import("node:querystring");
  export default module;
}

declare module "node:assert" {
  type Message = string | Error;
  type Expected = RegExp | (new (...args: any[]) => unknown) | ((error: unknown) => boolean) | object;

  export class AssertionError extends Error {
    constructor(options: { message?: string; actual?: unknown; expected?: unknown; operator?: string });
    readonly actual: unknown;
    readonly expected: unknown;
    readonly operator: string;
    readonly code: "ERR_ASSERTION";
  }
  function assert(value: unknown, message?: Message): asserts value;
  export function ok(value: unknown, message?: Message): asserts value;
  export function equal(actual: unknown, expected: unknown, message?: Message): void;
  export function notEqual(actual: unknown, expected: unknown, message?: Message): void;
  export function strictEqual<T>(actual: unknown, expected: T, message?: Message): asserts actual is T;
  export function notStrictEqual(actual: unknown, expected: unknown, message?: Message): void;
  export function deepEqual(actual: unknown, expected: unknown, message?: Message): void;
  export function notDeepEqual(actual: unknown, expected: unknown, message?: Message): void;
  export function deepStrictEqual<T>(actual: unknown, expected: T, message?: Message): asserts actual is T;
  export function notDeepStrictEqual(actual: unknown, expected: unknown, message?: Message): void;
  export function match(text: string, pattern: RegExp, message?: Message): void;
  export function doesNotMatch(text: string, pattern: RegExp, message?: Message): void;
  export function throws(f: () => unknown, expected?: Expected | string, message?: Message): void;
  export function doesNotThrow(f: () => unknown, message?: Message): void;
  export function rejects(f: Promise<unknown> | (() => Promise<unknown>), expected?: Expected | string, message?: Message): Promise<void>;
  export function doesNotReject(f: Promise<unknown> | (() => Promise<unknown>), message?: Message): Promise<void>;
  export function fail(message?: Message): never;
  type Everything = typeof assert & Omit<typeof import("node:assert"), "default">;
  const module: Everything;
  export default module;
}

declare module "node:events" {
  type Listener = (...args: any[]) => void;
  type Name = string | symbol;

  export class EventEmitter {
    static once(emitter: EventEmitter, name: Name, options?: { signal?: AbortSignal }): Promise<any[]>;
    static defaultMaxListeners: number;
    addListener(name: Name, listener: Listener): this;
    emit(name: Name, ...args: any[]): boolean;
    eventNames(): Name[];
    getMaxListeners(): number;
    listenerCount(name: Name): number;
    listeners(name: Name): Listener[];
    off(name: Name, listener: Listener): this;
    on(name: Name, listener: Listener): this;
    once(name: Name, listener: Listener): this;
    prependListener(name: Name, listener: Listener): this;
    prependOnceListener(name: Name, listener: Listener): this;
    removeAllListeners(name?: Name): this;
    removeListener(name: Name, listener: Listener): this;
    setMaxListeners(n: number): this;
  }
  export const once: typeof EventEmitter.once;
  export default EventEmitter;
}

declare module "node:string_decoder" {
  import type { BufferEncoding } from "node:buffer";

  export class StringDecoder {
    constructor(encoding?: BufferEncoding);
    readonly encoding: BufferEncoding;
    write(data: ArrayBufferView): string;
    end(data?: ArrayBufferView): string;
  }
  const module: typeof import("node:string_decoder");
  export default module;
}
