// Timers. The host measures the time and calls fire.
import { call, onCall, onTimer } from "../core.js";
import { badType, install, named } from "./base.js";

const timers = new Map();
let lastID = 0;

onCall(() => timers.clear());

class Timeout {
  #id;
  #start;

  constructor(id, start) {
    this.#id = id;
    this.#start = start;
  }
  ref() { return this; }
  unref() { return this; }
  hasRef() { return true; }
  refresh() {
    this.#start();
    return this;
  }
  close() {
    clear(this);
    return this;
  }
  [Symbol.toPrimitive]() { return this.#id; }
  [Symbol.dispose]() { clear(this); }
}
named("Timeout", Timeout);

function start(callback, ms, args, repeat) {
  if (typeof callback !== "function") {
    throw badType('The "callback" argument must be of type function');
  }
  const id = ++lastID;
  const arm = () => {
    if (timers.has(id)) call("untimer", id);
    timers.set(id, { callback, args, again: repeat ? arm : undefined });
    call("timer", id, ms);
  };
  arm();
  return new Timeout(id, arm);
}

function delay(ms) {
  const n = Math.trunc(Number(ms));
  return n >= 1 && n <= 0x7fffffff ? n : 1;
}

function clear(timer) {
  if (timer === undefined || timer === null) return;
  const id = Number(timer);
  if (timers.delete(id)) call("untimer", id);
}

onTimer((id) => {
  const timer = timers.get(id);
  if (!timer) return;
  timers.delete(id);
  timer.again?.();
  timer.callback.apply(undefined, timer.args);
});

install({
  setTimeout: (callback, ms, ...args) => start(callback, delay(ms), args, false),
  setInterval: (callback, ms, ...args) => start(callback, delay(ms), args, true),
  setImmediate: (callback, ...args) => start(callback, 0, args, false),
  clearTimeout: (timer) => clear(timer),
  clearInterval: (timer) => clear(timer),
  clearImmediate: (timer) => clear(timer),
});
