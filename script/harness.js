// The harness answers the requests that toolyard makes of a script: what it declares, and
// calls of its functions. It is evaluated once, into the image that all scripts start from.
import * as zod from "zod";

const isZod = (s) => typeof s === "object" && s !== null && "_zod" in s;

/** isTool reports whether a default export is a tool as the AI SDK makes them. */
const isTool = (d) => typeof d === "object" && d !== null && typeof d.execute === "function";

/** isFactory reports whether a default export makes its tool for each context. */
const isFactory = (d) => typeof d === "object" && d !== null && typeof d.build === "function";

const isToolClass = (d) => typeof d === "function" && typeof d.prototype?.execute === "function";

/** parts returns what a module declares about its tool, in any of the supported forms. */
export function parts(m) {
  let d = m.default;
  if (isFactory(d)) return factoryParts(m, d);
  if (isToolClass(d)) d = new d();
  if (!isTool(d)) return { ...m, hint: m.hint ?? m.uiHint, execute: d };
  return { ...m, ...d, hint: d.hint ?? d.uiHint ?? m.hint, inputSchema: d.inputSchema ?? d.parameters, execute: (...args) => d.execute(...args) };
}

/** factoryParts reads { name, description, build(ctx) }: the description of the factory is for people. */
function factoryParts(m, d) {
  const made = d.build(new Context('{"mode":"read","asOf":0}'));
  return {
    ...m,
    ...d,
    summary: d.summary ?? d.description,
    hint: d.hint ?? d.uiHint,
    description: made.description ?? d.description,
    inputSchema: made.inputSchema ?? made.parameters,
    outputSchema: made.outputSchema ?? d.outputSchema,
    execute: (args, ctx) => d.build(ctx).execute(args, {}),
  };
}

/** jsonSchema is the JSON Schema of whatever a script calls a schema. */
function jsonSchema(part, s, io) {
  if (isZod(s)) {
    try {
      const schema = zod.toJSONSchema(s, { io });
      delete schema.$schema;
      return schema;
    } catch (e) {
      throw new Fault(part, `${part} cannot be converted to JSON Schema: ${e.message}`);
    }
  }
  if (typeof s === "object" && s !== null && typeof s.jsonSchema === "object") return s.jsonSchema;
  if (typeof s === "object" && s !== null && "_def" in s) {
    throw new Fault(part, `${part} was created by a different copy of zod; import "zod" without installing it`);
  }
  if (typeof s === "object" && s !== null && !Array.isArray(s)) return s;
  throw new Fault(part, `${part} must be a zod schema`);
}

/** Fault is something that a part of a script lacks. */
class Fault extends Error {
  constructor(part, message) {
    super(message);
    this.part = part;
  }
}

const texts = ["name", "title", "summary", "hint", "category"];

/** declare is what a module says of its one tool. It throws for what is missing. */
export function declare(m) {
  const p = parts(m);
  const faults = [];
  const attempt = (f) => {
    try {
      return f();
    } catch (e) {
      if (!(e instanceof Fault)) throw e;
      faults.push({ part: e.part, message: e.message });
    }
  };
  const tool = { export: "default" };
  attempt(() => {
    if (p.description === undefined) throw new Fault("description", "there is no description: export const description = \"…\"");
    if (typeof p.description !== "string") throw new Fault("description", "description must be a string");
    tool.description = p.description;
  });
  attempt(() => {
    if (p.inputSchema === undefined) throw new Fault("inputSchema", "there is no inputSchema: export const inputSchema = z.object({…})");
    tool.input = jsonSchema("inputSchema", p.inputSchema, "input");
    if (tool.input.type !== "object") throw new Fault("inputSchema", "inputSchema must be a z.object()");
  });
  attempt(() => {
    if (p.execute === undefined) throw new Fault("default", "there is no default function: export default async (args, ctx) => …");
    if (typeof p.execute !== "function") throw new Fault("default", "the default export must be a function");
  });
  attempt(() => {
    if (p.outputSchema !== undefined) tool.output = jsonSchema("outputSchema", p.outputSchema, "output");
  });
  for (const part of texts) {
    attempt(() => {
      if (p[part] !== undefined && typeof p[part] !== "string") throw new Fault(part, `${part} must be a string`);
      tool[part] = p[part];
    });
  }
  attempt(() => Object.assign(tool, options(p)));
  const members = isTool(m.default) || isFactory(m.default) ? Object.keys(m.default) : [];
  return { tools: faults.length ? [] : [tool], faults, library: isLibrary(p), ...seen(m, members) };
}

/** seen is what the author may have meant otherwise: names, and variables that were read too early. */
const seen = (m, members) => ({ exports: [...Object.keys(m), ...members].slice(0, 200), early: outside.early?.() ?? [] });

const isTexts = (list) => Array.isArray(list) && list.every((t) => typeof t === "string");

/** options are the parts that all ways to declare a tool have. */
function options(p) {
  if (p.timeout !== undefined && typeof p.timeout !== "number") throw new Fault("timeout", "timeout must be a number of milliseconds");
  if (p.modes !== undefined && !isTexts(p.modes)) throw new Fault("modes", 'modes must be a list of strings: ["read", "write"] for a read-only tool');
  if (p._meta !== undefined && (typeof p._meta !== "object" || p._meta === null)) throw new Fault("_meta", "_meta must be an object");
  for (const [kind, list] of Object.entries(p.permissions ?? {})) {
    if (!["net", "read", "env"].includes(kind)) throw new Fault("permissions", `unknown permission ${kind}; use net, read or env`);
    if (!isTexts(list)) throw new Fault("permissions", `permissions.${kind} must be a list of strings`);
  }
  return { modes: p.modes, timeout: p.timeout, permissions: p.permissions, shared: p.shared === true, meta: p._meta };
}

/** isLibrary reports whether a module does not look like a tool at all. */
const isLibrary = (p) => p.description === undefined && p.inputSchema === undefined && p.execute === undefined;

/** check reports whether the functions that a declaration names are there. */
function check(m, names) {
  const faults = [];
  for (const name of names) {
    if (typeof m[name] !== "function") {
      faults.push({ part: name, message: `${name} is declared, but the script exports no function of that name` });
    }
  }
  let more = {};
  try {
    more = options(m);
  } catch (e) {
    if (!(e instanceof Fault)) throw e;
    faults.push({ part: e.part, message: e.message });
  }
  const said = Object.fromEntries(["hint", "category"].filter((part) => typeof m[part] === "string").map((part) => [part, m[part]]));
  return { tools: [{ ...said, ...more }], faults, ...seen(m, []) };
}

/** declareProvider is what a module says of itself that provides context. */
function declareProvider(m) {
  const faults = [];
  if (typeof m.default !== "function") {
    faults.push({ part: "default", message: "there is no default function: export default async (caller, asOf) => ({ … })" });
  }
  let more = {};
  try {
    more = options(m);
  } catch (e) {
    if (!(e instanceof Fault)) throw e;
    faults.push({ part: e.part, message: e.message });
  }
  return { tools: [{ export: "default", ...more }], faults, ...seen(m, []) };
}

/** declareHooks is what a module says of itself that holds the hooks of an agent. */
function declareHooks(m) {
  const faults = [];
  const hooks = ["Create", "Next"].filter((name) => m[name] !== undefined);
  for (const name of hooks) {
    if (typeof m[name] !== "function") faults.push({ part: name, message: `${name} must be a function` });
  }
  if (hooks.length === 0) {
    faults.push({ part: "Create", message: "there is no hook: export function Create(ctx, messages) or Next(ctx, payload)" });
  }
  let more = {};
  try {
    more = options(m);
  } catch (e) {
    if (!(e instanceof Fault)) throw e;
    faults.push({ part: e.part, message: e.message });
  }
  return { tools: [{ export: "Create", ...more }], hooks, faults, ...seen(m, []) };
}

/** own is what parts finds, for a module that was prepared. */
let own;

/** prepare does what every call would have to do again. The image is made after it. */
function prepare(m) {
  own = parts(m);
  if (isZod(own.inputSchema)) own.inputSchema.safeParse({});
}

/** validate is what the schema makes of the arguments: defaults, transformations, brands. */
function validate(schema, args) {
  let r;
  try {
    r = schema.safeParse(args);
  } catch (e) {
    if (!(e instanceof zod.core.$ZodAsyncError)) throw e;
    return schema.safeParseAsync(args).then(accept);
  }
  return accept(r);
}

/** accept is the data of a parse, or the error that says what is wrong. */
function accept(r) {
  if (r.success) return r.data;
  const e = new Error(zod.prettifyError(r.error));
  e.name = "ZodError";
  e.issues = r.error.issues.map(({ path, message }) => ({ path: path.map(String), message }));
  throw e;
}

/** outside is the interface to the host; each request sets it. */
let outside;

/** setHost sets the interface to the host, for other harnesses. */
export function setHost(host) {
  outside = host;
}
export { outside as host };

const log = {};
for (const level of ["debug", "info", "warn", "error"]) {
  log[level] = (message, data) => (data === undefined ? console[level](message) : console[level](message, data));
}

/** Context is the second argument of a tool's function. Most tools use little of it. */
class Context {
  #json;
  #data;
  constructor(json) {
    this.#json = json;
  }
  get #fields() {
    return (this.#data ??= JSON.parse(this.#json));
  }
  get authorized() {
    return this.#fields.authorized;
  }
  get mode() {
    return this.#fields.mode;
  }
  get asOf() {
    return new Date(this.#fields.asOf);
  }
  get requestId() {
    return this.#fields.requestId;
  }
  get gate() {
    return this.#fields.gate;
  }
  get log() {
    return log;
  }
  get mcp() {
    return toolbox;
  }
  progress(done, total, message) {
    outside.tell("progress", { done, total, message });
  }
  async ask(question) {
    const { key = "answer", message, url, bind = "", state } = question;
    const dependsOn = typeof bind === "string" ? bind : JSON.stringify(bind);
    const reply = await outside.post("Ask", { key, message, url, bind: dependsOn, state, schema: url ? undefined : formSchema(question.schema) });
    return { ...reply, accepted: reply.action === "accept" };
  }
}

/** formSchema is the schema of a form. Clients know only these keywords at its root. */
function formSchema(schema) {
  const { properties = {}, required } = schema === undefined ? {} : jsonSchema("schema", schema, "input");
  return { type: "object", properties, required };
}

/** operations of ctx.mcp: the arguments of each, by the name of the synchronous one. */
const operations = {
  ListTools: (server) => ({ server }),
  CallTool: (server, name, args) => ({ server, calls: [{ name, arguments: args }] }),
  CallToolsParallel: (server, calls) => ({ server, calls }),
  ListResources: (server) => ({ server }),
  ReadResource: (server, uri) => ({ server, uri }),
};

/** toolbox is ctx.mcp. CallTool waits for its result; callTool returns a promise of it. */
const toolbox = {};
for (const [name, payload] of Object.entries(operations)) {
  const op = name === "CallTool" ? "CallToolsParallel" : name;
  const open = (value) => (name === "CallTool" ? value[0] : value);
  toolbox[name] = (...args) => open(outside.ask(op, payload(...args)));
  toolbox[name[0].toLowerCase() + name.slice(1)] = async (...args) => open(await outside.post(op, payload(...args)));
}

/** call calls a function of the module. */
function call(m, r) {
  const ctx = new Context(r.ctx);
  if (r.export !== "default") return m[r.export](r.args, ctx);
  return execute(own ?? parts(m), r.args, ctx);
}

/** execute calls the function of a tool with what its schema makes of the arguments. */
export function execute(p, args, ctx) {
  if (!isZod(p.inputSchema)) return p.execute(args, ctx);
  const valid = validate(p.inputSchema, args);
  if (valid instanceof Promise) return valid.then((a) => p.execute(a, ctx));
  return p.execute(valid, ctx);
}

/** present is a value that a function returned, as toolyard gets it. */
export function present(value) {
  if (typeof value === "number" || typeof value === "bigint" || typeof value === "boolean") return { text: String(value) };
  return { value };
}

/** warm has zod set up here, once, what it sets up at first use. */
function warm() {
  const { z } = zod;
  const s = z.object({
    text: z.string().min(1).max(9).describe("x"),
    shape: z.string().regex(/x/).optional(),
    email: z.email().optional(),
    url: z.url().optional(),
    uuid: z.uuid().nullable().optional(),
    date: z.iso.datetime().optional(),
    int: z.number().int().min(0).max(9).default(1).describe("x"),
    number: z.number().positive().optional(),
    flag: z.boolean().default(false),
    choice: z.enum(["a", "b"]).default("a"),
    list: z.array(z.string()).min(0).max(9).optional(),
    either: z.union([z.string(), z.number(), z.literal("x")]).optional(),
    tagged: z.discriminatedUnion("k", [z.object({ k: z.literal("a") }), z.object({ k: z.literal("b") })]).optional(),
    map: z.record(z.string(), z.unknown()).optional(),
    pair: z.tuple([z.string(), z.any()]).optional(),
    checked: z.string().refine(() => true, "x").optional(),
    changed: z.string().trim().toLowerCase().transform((t) => t).optional(),
    coerced: z.coerce.number().optional(),
    none: z.null().optional(),
  });
  jsonSchema("x", s, "input");
  jsonSchema("x", z.object({ a: z.string() }), "output");
  s.safeParse({ text: "x", changed: "x", checked: "x" });
  const bad = s.safeParse({});
  zod.prettifyError(bad.error);
}
warm();

__runtime.install((m, request, host) => {
  outside = host;
  if (request === null) return prepare(m);
  if (request.declared) return check(m, request.declared);
  if (request.declare) return declare(m);
  if (request.declareProvider) return declareProvider(m);
  if (request.provide) return m.default(request.provide.caller, new Date(request.provide.asOf));
  if (request.declareHooks) return declareHooks(m);
  if (request.hook) return m[request.hook.name](new Context(request.hook.ctx), request.hook.argument);
  return call(m, request);
}, present);
