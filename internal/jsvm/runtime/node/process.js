// process, also as node:process.
import { ask, onCall, readEarly } from "../core.js";
import { install } from "../web/base.js";

let known, local, folder;

onCall(reset);
reset();

function reset() {
  folder = undefined;
  known = new Map();
  local = new Map();
}

function lookup(name) {
  if (local.has(name)) return local.get(name);
  if (!known.has(name)) known.set(name, question({ name }) ?? undefined);
  return known.get(name);
}

// While a module is loading, there is no request handler, so no variable is set. Reading a variable
// that the script declares but the operator has not granted throws an error.
function question(payload) {
  try {
    return ask("env", payload);
  } catch (e) {
    if (e.name === "NotCapable" && e.code === "EACCES") throw e;
    if (payload.name) readEarly(payload.name);
    return undefined;
  }
}

function keep(name, value) {
  local.set(name, value);
  return true;
}

function names() {
  const all = new Set(question({}) ?? []);
  for (const [name, value] of local) {
    if (value === undefined) all.delete(name);
    else all.add(name);
  }
  return [...all];
}

function describe(_, name) {
  const value = typeof name === "string" ? lookup(name) : undefined;
  return value === undefined ? undefined : { value, writable: true, enumerable: true, configurable: true };
}

// Names in Object.prototype are not variables.
const inherited = (name) => typeof name === "symbol" || name === "toJSON" || name in Object.prototype;

const env = new Proxy({}, {
  get: (target, name) => (inherited(name) ? target[name] : lookup(name)),
  has: (target, name) => (inherited(name) ? name in target : lookup(name) !== undefined),
  set: (_, name, value) => keep(name, String(value)),
  defineProperty: (_, name, { value }) => keep(name, String(value)),
  deleteProperty: (_, name) => keep(name, undefined),
  ownKeys: names,
  getOwnPropertyDescriptor: describe,
});

function hrtime(since) {
  const ms = performance.now();
  let seconds = Math.floor(ms / 1000);
  let nanos = Math.round((ms % 1000) * 1e6);
  if (since) {
    seconds -= since[0];
    nanos -= since[1];
    if (nanos < 0) [seconds, nanos] = [seconds - 1, nanos + 1e9];
  }
  return [seconds, nanos];
}
hrtime.bigint = () => BigInt(Math.round(performance.now() * 1e6));

const writer = (log) => ({
  isTTY: false,
  columns: 80,
  write(text) {
    log(String(text).replace(/\n$/, ""));
    return true;
  },
});

/** process is a subset of the process object. */
export const process = {
  title: "toolyard",
  version: "v20.0.0",
  versions: { node: "20.0.0", toolyard: "1" },
  platform: "linux",
  arch: "wasm32",
  pid: 1,
  ppid: 0,
  argv: ["toolyard", "script"],
  argv0: "toolyard",
  execArgv: [],
  execPath: "/toolyard",
  exitCode: undefined,
  release: { name: "node" },
  env,
  stdout: writer((text) => console.log("%s", text)),
  stderr: writer((text) => console.error("%s", text)),
  cwd() {
    try {
      return (folder ??= ask("cwd"));
    } catch {
      return "/"; // there is no request handler while a module is loading
    }
  },
  hrtime,
  uptime: () => performance.now() / 1000,
  nextTick(f, ...args) { queueMicrotask(() => f(...args)); },
  memoryUsage: () => ({ rss: 0, heapTotal: 0, heapUsed: 0, external: 0, arrayBuffers: 0 }),
  emitWarning: (warning) => console.warn(warning),
  exit(code = 0) { throw new Error(`process.exit(${code}) was called`); },
};
for (const name of ["on", "once", "off", "addListener", "removeListener", "removeAllListeners"]) {
  process[name] = () => process;
}
process.emit = () => false;
process.listeners = () => [];
process.listenerCount = () => 0;

Object.defineProperty(process, Symbol.toStringTag, { value: "process", configurable: true });
install({ process });
