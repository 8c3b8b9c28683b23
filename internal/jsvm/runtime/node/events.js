// node:events. EventEmitter is a function, not a class, to support util.inherits.
import { abortError, badType, failure } from "../web/base.js";
import { inspect } from "../web/inspect.js";

export function EventEmitter() {
  this._events ??= new Map();
}

// A listener is {f, raw}. raw is the function that was added, which differs from f for once.
function listOf(emitter, name) {
  if (!(emitter._events instanceof Map)) emitter._events = new Map();
  return emitter._events.get(name) ?? [];
}

function add(emitter, name, f, { first = false, once = false } = {}) {
  if (typeof f !== "function") throw badType('The "listener" argument must be of type function');
  listOf(emitter, "");
  if (emitter._events.has("newListener")) emitter.emit("newListener", name, f);
  const list = listOf(emitter, name);
  const entry = { raw: f, f };
  if (once) {
    let fired = false;
    entry.f = function (...args) {
      if (fired) return undefined;
      removeEntry(emitter, name, entry);
      fired = true;
      return f.apply(this, args);
    };
    entry.f.listener = f;
  }
  emitter._events.set(name, first ? [entry, ...list] : [...list, entry]);
  return emitter;
}

function removeEntry(emitter, name, entry) {
  const list = listOf(emitter, name);
  if (!list.includes(entry)) return; // a removeListener listener removed it
  const rest = list.filter((e) => e !== entry);
  if (rest.length) emitter._events.set(name, rest);
  else emitter._events.delete(name);
  if (emitter._events.has("removeListener")) emitter.emit("removeListener", name, entry.raw);
}

function unhandled(e) {
  if (e instanceof Error) return e;
  const error = failure(Error, "ERR_UNHANDLED_ERROR", `Unhandled error. (${inspect(e)})`);
  error.context = e;
  return error;
}

const methods = {
  on(name, f) { return add(this, name, f); },
  once(name, f) { return add(this, name, f, { once: true }); },
  prependListener(name, f) { return add(this, name, f, { first: true }); },
  prependOnceListener(name, f) { return add(this, name, f, { first: true, once: true }); },
  off(name, f) {
    const entry = listOf(this, name).findLast((e) => e.raw === f || e.f === f);
    if (entry) removeEntry(this, name, entry);
    return this;
  },
  removeAllListeners(name) {
    // Listeners for removeListener come last, because they are notified when all others are
    // removed.
    const names = name === undefined ? [...this.eventNames().filter((n) => n !== "removeListener"), "removeListener"] : [name];
    for (const n of names) {
      for (const e of listOf(this, n).toReversed()) removeEntry(this, n, e);
    }
    return this;
  },
  emit(name, ...args) {
    const list = listOf(this, name);
    if (name === "error") {
      for (const { f } of listOf(this, EventEmitter.errorMonitor)) f.apply(this, args);
      if (list.length === 0) throw unhandled(args[0]);
    }
    for (const { f } of list) f.apply(this, args);
    return list.length > 0;
  },
  listeners(name) { return listOf(this, name).map((e) => e.raw); },
  rawListeners(name) { return listOf(this, name).map((e) => e.f); },
  listenerCount(name, f) { return listOf(this, name).filter((e) => f === undefined || e.raw === f).length; },
  eventNames() {
    listOf(this, "");
    return Reflect.ownKeys(Object.fromEntries(this._events)); // in property order
  },
  setMaxListeners(n) {
    Object.defineProperty(this, "_maxListeners", { value: n, writable: true, configurable: true });
    return this;
  },
  getMaxListeners() { return this._maxListeners ?? EventEmitter.defaultMaxListeners; },
};
methods.addListener = methods.on;
methods.removeListener = methods.off;
Object.assign(EventEmitter.prototype, methods);

// _events is a non-enumerable property of each emitter.
Object.defineProperty(EventEmitter.prototype, "_events", {
  get: () => undefined,
  set(value) { Object.defineProperty(this, "_events", { value, writable: true, configurable: true }); },
  configurable: true,
});

/** once returns a promise for the next event. */
export function once(emitter, name, { signal } = {}) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(abortError(signal));
    if (typeof emitter.addEventListener === "function") {
      return emitter.addEventListener(name, (e) => resolve([e]), { once: true, signal });
    }
    const done = (settle) => (...args) => {
      emitter.removeListener(name, good);
      emitter.removeListener("error", bad);
      settle(args);
    };
    const good = done(resolve);
    const bad = done(([e]) => reject(e));
    emitter.on(name, good);
    if (name !== "error") emitter.on("error", bad);
    signal?.addEventListener("abort", () => done(() => reject(abortError(signal)))(), { once: true });
  });
}

Object.defineProperty(EventEmitter, "name", { value: "EventEmitter", configurable: true });
Object.assign(EventEmitter, { EventEmitter, once, defaultMaxListeners: 10, errorMonitor: Symbol("events.errorMonitor") });
EventEmitter.listenerCount = (emitter, name) => emitter.listenerCount(name);
