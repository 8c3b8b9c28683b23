// What tests pass to tools: a context on fakes, and calls that take the same steps as those of Toolyard.
import { fn, setTime } from "toolyard:framework";
import { declare, execute, host, parts, present } from "toolyard:harness";

/** asCallResult converts the return value of a fake tool. */
function asCallResult(value) {
  if (typeof value === "object" && value !== null && Array.isArray(value.content)) return value;
  if (typeof value === "object" && value !== null && value.isError === true) {
    return { content: [{ type: "text", text: String(value.error) }], isError: true };
  }
  if (typeof value === "object" && value !== null) {
    return { content: [{ type: "text", text: JSON.stringify(value) }], structuredContent: value };
  }
  return { content: value === undefined || value === null ? [] : [{ type: "text", text: String(value) }] };
}

const failed = (e) => ({ content: [{ type: "text", text: `Error: ${e?.message ?? e}` }], isError: true });

function later(value, use) {
  return typeof value?.then === "function" ? value.then(use, failed) : use(value);
}

/** callFake calls a fake tool. The result is a promise if the fake returns one. */
function callFake(tools, name, args) {
  const fake = tools[name];
  if (typeof fake !== "function") {
    throw new Error(`no fake for tool ${name}: pass one to context({ tools: { ${name}: (args) => … } })`);
  }
  try {
    return later(fake(args ?? {}), asCallResult);
  } catch (e) {
    return failed(e);
  }
}

function fakeResource(resources, uri) {
  if (!Object.hasOwn(resources, uri)) throw new Error(`unknown resource ${uri}`);
  const value = resources[uri];
  return typeof value === "string" ? { contents: [{ uri, text: value }] } : value;
}

/** fakeMcp is ctx.mcp on fakes: the empty server has the given tools and resources. */
function fakeMcp({ tools = {}, resources = {}, servers = {} }) {
  const of = (server) => {
    if (!server) return { tools, resources };
    if (!Object.hasOwn(servers, server)) throw new Error(`unknown server ${server}: pass it to context({ servers: { … } })`);
    return { tools: {}, resources: {}, ...servers[server] };
  };
  const promise = {
    listTools: async (server) => Object.keys(of(server).tools).map((name) => ({ name, description: "", inputSchema: { type: "object" } })),
    callTool: async (server, name, args) => callFake(of(server).tools, name, args),
    callToolsParallel: async (server, calls) => Promise.all(calls.map((c) => callFake(of(server).tools, c.name, c.arguments))),
    listResources: async (server) => Object.keys(of(server).resources).map((uri) => ({ uri, name: uri })),
    readResource: async (server, uri) => fakeResource(of(server).resources, uri),
  };
  const now = (value) => {
    if (typeof value?.then === "function") throw new Error("a blocking method requires a fake that does not return a promise");
    return value;
  };
  return {
    ...promise,
    ListTools: (server) => Object.keys(of(server).tools).map((name) => ({ name, description: "", inputSchema: { type: "object" } })),
    CallTool: (server, name, args) => now(callFake(of(server).tools, name, args)),
    CallToolsParallel: (server, calls) => calls.map((c) => now(callFake(of(server).tools, c.name, c.arguments))),
    ListResources: (server) => Object.keys(of(server).resources).map((uri) => ({ uri, name: uri })),
    ReadResource: (server, uri) => fakeResource(of(server).resources, uri),
  };
}

/** fakeAsk answers questions by their key: true, false, a form, or { action, form }. */
function fakeAsk(answers) {
  return async ({ key = "answer", state }) => {
    if (!Object.hasOwn(answers, key)) throw new Error(`no answer to question ${key}: pass one to context({ answers: { ${key}: true } })`);
    const answer = answers[key];
    if (typeof answer === "boolean") return { action: answer ? "accept" : "decline", accepted: answer, form: {}, state };
    if (typeof answer.action === "string") return { form: {}, state, ...answer, accepted: answer.action === "accept" };
    return { action: "accept", accepted: true, form: answer, state };
  };
}

/**
 * context returns the second argument of a tool's function. Other members of the options, such as the
 * clients of your own code, become members of the context.
 */
export function context(options = {}) {
  const { authorized, asOf, tools, resources, servers, user, answers = {}, ...rest } = options;
  const log = {};
  for (const level of ["debug", "info", "warn", "error"]) {
    log[level] = fn((message, data) => (data === undefined ? console[level](message) : console[level](message, data)));
  }
  return {
    authorized: authorized ?? (user === undefined ? undefined : { user_id: user, roles: [] }),
    mode: "write",
    asOf: new Date(asOf ?? Date.now()),
    requestId: "test",
    gate: "test",
    log,
    mcp: fakeMcp({ tools, resources, servers }),
    progress: fn(),
    ask: fn(fakeAsk(answers)),
    ...rest,
  };
}

/** moduleOf accepts what a test can import of a tool: the namespace of its module, or a tool object. */
function moduleOf(tool) {
  if (typeof tool === "function") throw new Error('call() requires the whole module: import * as hello from "./hello"');
  return typeof tool?.execute === "function" ? { default: tool } : tool;
}

/** call calls a tool as Toolyard does, and returns the result that a client receives. */
export async function call(tool, args = {}, ctx = context()) {
  const module = moduleOf(tool);
  const { tools, faults } = declare(module);
  if (faults.length) throw new Error(faults.map((f) => f.message).join("; "));
  const valid = host.ask("validate", { tool: tools[0], args });
  if (valid.result) return valid.result;
  let outcome;
  const frozen = ctx.asOf instanceof Date;
  try {
    if (frozen) setTime(ctx.asOf);
    outcome = present(await execute(parts(module), valid.args, ctx));
  } catch (e) {
    outcome = { thrown: host.describe(e) };
  } finally {
    if (frozen) setTime();
  }
  return host.ask("result", { tool: tools[0], outcome });
}
