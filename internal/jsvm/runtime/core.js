// The interface to the host. It is evaluated once, in the image that every VM starts from; all other
// parts of the runtime reach the host through its exports.
//
// host(op, ...args) takes strings and numbers and returns synchronously:
//
//   log(level, text)              writes a line to the log of the call
//   random(n)                     returns n random bytes in base64
//   digest(algorithm, data)       returns a hash: sha-1, sha-256, sha-384, sha-512 or md5; base64 in and out
//   hmac(algorithm, key, data)    returns an HMAC
//   zone(name, ms)                returns a time zone at a time as JSON {offset, abbreviation}; offset in seconds
//   timer(id, ms), untimer(id)    schedules fire(id) after ms milliseconds, or cancels it
//   ask(op, json)                 sends a request to the process and waits for the response
//   post(id, op, json)            sends a request; the host calls settle(id, answer) later
//   tell(op, json)                sends a notification
//   done(json)                    finishes the call
//
// Responses are JSON: {"value": …} or {"error": {"name", "message", "code"}}.

const raw = globalThis.__host;
delete globalThis.__host;

/** host calls a host function. A result that starts with a zero character is an error message. */
function host(...args) {
  const answer = raw(...args);
  if (typeof answer === "string" && answer[0] === "\0") throw new Error(answer.slice(1));
  return answer;
}

const { parse, stringify } = JSON;
const waiting = new Map();
const resets = [];
let lastID = 0;
let harness;
let wrap;

/** call calls a synchronous host function. */
export const call = host;

/** onCall registers a function that resets state for each call, because images are shared. */
export function onCall(reset) {
  resets.push(reset);
}

function open(answer) {
  const { value, error } = parse(answer);
  if (!error) return value;
  const e = new Error(error.message);
  if (error.name) Object.defineProperty(e, "name", { value: error.name, configurable: true, writable: true });
  if (error.code) e.code = error.code;
  throw e;
}

/** ask sends a request and waits for its response. */
export function ask(op, payload) {
  return open(host("ask", op, stringify(payload ?? null)));
}

/** send sends a request. One of the callbacks receives its response. */
function send(op, payload, resolve, reject) {
  const id = ++lastID;
  waiting.set(id, { resolve, reject });
  try {
    host("post", id, op, stringify(payload ?? null));
  } catch (e) {
    waiting.delete(id);
    reject(e);
  }
}

/** post sends a request and returns a promise for its response. */
export function post(op, payload) {
  const { stack } = new Error();
  return new Promise((resolve, reject) => send(op, payload, resolve, (e) => reject(thrownAt(e, stack))));
}

/** thrownAt replaces the stack of a host error with that of the waiting code. */
export function thrownAt(e, stack) {
  return Object.defineProperty(e, "stack", { value: stack, configurable: true, writable: true });
}

const early = new Set();

/** readEarly records an environment variable that was read while the module was loading, when none is set. */
export function readEarly(name) {
  if (early.size < 100) early.add(String(name).slice(0, 100));
}

function settle(id, answer) {
  const w = waiting.get(id);
  waiting.delete(id);
  if (!w) return;
  try {
    w.resolve(open(answer));
  } catch (e) {
    w.reject(e);
  }
}

/** describeError converts a thrown value for the host. */
function describeError(e) {
  if (!(e instanceof Error)) {
    let message;
    try {
      message = typeof e === "string" ? e : (stringify(e) ?? String(e));
    } catch {
      message = "something that cannot be shown was thrown";
    }
    return { name: "", message };
  }
  const { issues } = e;
  return {
    name: String(e.name).slice(0, 100),
    message: String(e.message),
    stack: String(e.stack ?? "").slice(0, 8000),
    code: typeof e.code === "string" ? e.code : undefined,
    retryAfterMs: Number.isFinite(e.retryAfterMs) ? e.retryAfterMs : undefined,
    issues: Array.isArray(issues) ? issues : undefined,
  };
}

function finish(answer) {
  let json;
  try {
    json = stringify(answer);
  } catch (e) {
    json = stringify({ error: { name: "TypeError", message: "the result has no JSON form: " + e.message } });
  }
  host("done", json);
}

/** tell sends a notification, which has no response. */
export function tell(op, payload) {
  host("tell", op, stringify(payload ?? null));
}

const outside = { ask, post, send, tell, early: () => [...early], describe: describeError };

let used = false;

/** renew resets all state for the next call. */
function renew() {
  for (const reset of resets) reset();
  used = false;
}

/**
 * begin runs the harness on the exports of a module. With the request null the harness prepares for
 * calls; the image of the module is taken after that.
 */
function begin(exports, request) {
  if (used) renew(); // the previous call left state behind
  used = true;
  try {
    const value = harness(exports, parse(request), outside);
    if (request === "null") renew();
    if (value instanceof Promise) apply(then, value, [succeed, fail]);
    else if (typeof value?.then === "function") apply(then, new Promise((resolve) => resolve(value)), [succeed, fail]);
    else succeed(value);
  } catch (e) {
    fail(e);
  }
}

// Captured here, because a module may patch globals.
const { apply } = Reflect;
const { Promise } = globalThis;
const { then } = Promise.prototype;

function succeed(value) {
  finish({ value: wrap(value) });
}

function fail(e) {
  let error;
  try {
    error = describeError(e);
  } catch {
    error = { name: "Error", message: "an error that cannot be shown was thrown" };
  }
  finish({ error });
}

const modules = new Map();

/** provide makes an object importable as a module: its keys are the exports. */
export function provide(name, exports) {
  modules.set(name, exports);
}

/** moduleSource returns the source of a module that exports a provided object. */
function moduleSource(name) {
  const names = Object.keys(modules.get(name)).filter((n) => n !== "default" && /^[A-Za-z_$][\w$]*$/.test(n));
  return (
    `const m = globalThis.__provided(${stringify(name)});\n` +
    `export default m.default ?? m;\n` +
    names.map((n) => `export const ${n} = m.${n};\n`).join("")
  );
}

let fire = () => {};

/** onTimer sets the function that is called when a timer fires. */
export function onTimer(f) {
  fire = f;
}

globalThis.__provided = (name) => modules.get(name);
globalThis.__runtime = {
  begin,
  settle,
  fire: (id) => fire(id),
  names: () => stringify([...modules.keys()]),
  moduleSource,
  /** install sets the request handler and the function that receives settled values. */
  install(h, w = (value) => value) {
    harness = h;
    wrap = w;
  },
};
