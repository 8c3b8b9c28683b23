// The part of the runtime that talks to the host. It is evaluated once, in the image that
// every VM starts from; all later parts reach the host through what it exports.
//
// host(op, ...args) takes strings and numbers and answers at once:
//
//   log(level, text)              a line of the call's log
//   random(n)                     n random bytes, in base64
//   digest(algorithm, data)       a hash: sha-1, sha-256, sha-384, sha-512 or md5; base64 in and out
//   hmac(algorithm, key, data)    the same with a key
//   zone(name, ms)                a time zone at a time, as JSON {offset, abbreviation}; offset in seconds
//   timer(id, ms), untimer(id)    call fire(id) in ms milliseconds, or no more
//   ask(op, json)                 ask the outside and wait for the answer
//   post(id, op, json)            ask the outside; settle(id, answer) comes later
//   tell(op, json)                say something to the outside
//   done(json)                    the call has ended
//
// The answers of the outside are JSON: {"value": …} or {"error": {"name", "message", "code"}}.

const raw = globalThis.__host;
delete globalThis.__host;

/** host asks the host. An answer that begins with a zero says what went wrong. */
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

/** call asks the host for something that it answers at once. */
export const call = host;

/** onCall registers what must be made new for each call, since images are shared. */
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

/** ask asks the outside for something and waits for it. */
export function ask(op, payload) {
  return open(host("ask", op, stringify(payload ?? null)));
}

/** post asks the outside for something; other work goes on meanwhile. */
export function post(op, payload) {
  const { stack } = new Error();
  return new Promise((resolve, fail) => {
    const reject = (e) => fail(thrownAt(e, stack));
    const id = ++lastID;
    waiting.set(id, { resolve, reject });
    try {
      host("post", id, op, stringify(payload ?? null));
    } catch (e) {
      waiting.delete(id);
      reject(e);
    }
  });
}

/** thrownAt gives an error that comes from elsewhere the stack of whoever waits for it. */
export function thrownAt(e, stack) {
  return Object.defineProperty(e, "stack", { value: stack, configurable: true, writable: true });
}

const early = new Set();

/** readEarly notes a variable that was read while the module was loaded, when none is set. */
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

/** describeError is what the outside learns of something that was thrown. */
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

/** tell says something to the outside that needs no answer. */
export function tell(op, payload) {
  host("tell", op, stringify(payload ?? null));
}

const outside = { ask, post, tell, early: () => [...early] };

let used = false;

/** renew makes everything new for the next call. */
function renew() {
  for (const reset of resets) reset();
  used = false;
}

/**
 * begin runs the harness on the exports of a module. The request null lets the harness prepare
 * for calls; the image that calls start from is made after it.
 */
function begin(exports, request) {
  if (used) renew(); // by a call that left its state to this one
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

// A module may patch what it likes, so these are not looked up by name later.
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

/** moduleSource is the text of a module that hands out what provide was given. */
function moduleSource(name) {
  const names = Object.keys(modules.get(name)).filter((n) => n !== "default" && /^[A-Za-z_$][\w$]*$/.test(n));
  return (
    `const m = globalThis.__provided(${stringify(name)});\n` +
    `export default m.default ?? m;\n` +
    names.map((n) => `export const ${n} = m.${n};\n`).join("")
  );
}

let fire = () => {};

/** onTimer says who is told that the time of a timer has come. */
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
  /** install says who answers requests, and what becomes of a value that was awaited. */
  install(h, w = (value) => value) {
    harness = h;
    wrap = w;
  },
};
