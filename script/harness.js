// The harness answers the requests that toolyard makes of a script: what it declares, and
// calls of its functions. It is evaluated once, into the image that all scripts start from.
import * as zod from "zod";

const isZod = (s) => typeof s === "object" && s !== null && "_zod" in s;

/** isTool reports whether a default export is a tool as the AI SDK makes them. */
const isTool = (d) => typeof d === "object" && d !== null && typeof d.execute === "function";

/** parts are what a module says of its one tool, whichever way it says it. */
function parts(m) {
  const d = m.default;
  if (!isTool(d)) return { ...m, execute: d };
  return { ...m, ...d, inputSchema: d.inputSchema ?? d.parameters, execute: (...args) => d.execute(...args) };
}

/** jsonSchema is the JSON Schema of whatever a script calls a schema. */
function jsonSchema(part, s, io) {
  if (isZod(s)) {
    try {
      const schema = zod.toJSONSchema(s, { io });
      delete schema.$schema;
      return schema;
    } catch (e) {
      throw new Fault(part, `${part} cannot be shown to callers: ${e.message}`);
    }
  }
  if (typeof s === "object" && s !== null && typeof s.jsonSchema === "object") return s.jsonSchema;
  if (typeof s === "object" && s !== null && "_def" in s) {
    throw new Fault(part, `${part} is made by another zod; import it from "zod" and do not install one`);
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

const texts = ["title", "summary", "hint", "category"];

/** declare is what a module says of its one tool. It throws for what is missing. */
function declare(m) {
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
    if (typeof p.description !== "string") throw new Fault("description", "description must be a text");
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
      if (p[part] !== undefined && typeof p[part] !== "string") throw new Fault(part, `${part} must be a text`);
      tool[part] = p[part];
    });
  }
  Object.assign(tool, options(p));
  return { tools: faults.length ? [] : [tool], faults, library: isLibrary(p) };
}

/** options are the parts that need no check here. */
function options(p) {
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
  const said = Object.fromEntries(texts.filter((part) => typeof m[part] === "string").map((part) => [part, m[part]]));
  return { tools: [{ ...said, ...options(m) }], faults };
}

/** prepare does what every call would have to do again. */
function prepare(m) {
  const { inputSchema } = parts(m);
  if (isZod(inputSchema)) inputSchema.safeParse({});
}

/** validate is what the schema makes of the arguments: defaults, transformations, brands. */
async function validate(schema, args) {
  if (!isZod(schema)) return args;
  let r;
  try {
    r = schema.safeParse(args);
  } catch (e) {
    if (e?.constructor?.name !== "$ZodAsyncError") throw e;
    r = await schema.safeParseAsync(args);
  }
  if (r.success) return r.data;
  const e = new Error(zod.prettifyError(r.error));
  e.name = "ZodError";
  e.issues = r.error.issues.map(({ path, message }) => ({ path: path.map(String), message }));
  throw e;
}

/** context is the second argument of a tool's function. */
function context(c, host) {
  const log = (level) => (message, data) => console[level](...(data === undefined ? [message] : [message, data]));
  return {
    ...c,
    asOf: new Date(c.asOf),
    log: { debug: log("debug"), info: log("info"), warn: log("warn"), error: log("error") },
    progress(done, total, message) {
      host.post("progress", { done, total, message }).catch(() => {});
    },
    mcp: toolbox(host),
  };
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
function toolbox(host) {
  const box = {};
  for (const [name, payload] of Object.entries(operations)) {
    const op = name === "CallTool" ? "CallToolsParallel" : name;
    const open = (value) => (name === "CallTool" ? value[0] : value);
    box[name] = (...args) => open(host.ask(op, payload(...args)));
    box[name[0].toLowerCase() + name.slice(1)] = async (...args) => open(await host.post(op, payload(...args)));
  }
  return box;
}

/** call calls a function of the module. */
async function call(m, r, host) {
  const p = r.export === "default" ? parts(m) : { execute: m[r.export] };
  const args = await validate(p.inputSchema, r.args);
  const value = await p.execute(args, context(r.ctx, host));
  if (typeof value === "number" || typeof value === "bigint" || typeof value === "boolean") return { text: String(value) };
  return { value };
}

__runtime.install((m, request, host) => {
  if (request === null) return prepare(m);
  if (request.declared) return check(m, request.declared);
  if (request.declare) return declare(m);
  return call(m, request, host);
});
