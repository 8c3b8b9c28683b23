// Event, EventTarget, AbortController and AbortSignal.
import { call } from "../core.js";
import { badType, failure, install, shownAs, tagged } from "./base.js";
import { inspect } from "./inspect.js";

export class Event {
  #type;
  #init;
  #state = { target: null, current: null, stopped: false, prevented: false, time: performance.now() };

  constructor(type, init) {
    if (arguments.length === 0) throw new TypeError('The "type" argument must be specified');
    this.#type = `${type}`;
    const { bubbles, cancelable, composed } = init ?? {};
    this.#init = { bubbles: Boolean(bubbles), cancelable: Boolean(cancelable), composed: Boolean(composed) };
  }
  static stateOf(event) { return event.#state; }
  get type() { return this.#type; }
  get target() { return this.#state.target; }
  get srcElement() { return this.#state.target; }
  get currentTarget() { return this.#state.current; }
  get bubbles() { return this.#init.bubbles; }
  get cancelable() { return this.#init.cancelable; }
  get composed() { return this.#init.composed; }
  get defaultPrevented() { return this.#state.prevented; }
  get timeStamp() { return this.#state.time; }
  get eventPhase() { return this.#state.current ? 2 : 0; }
  get isTrusted() { return false; }
  composedPath() { return this.#state.current ? [this.#state.current] : []; }
  preventDefault() {
    if (this.cancelable) this.#state.prevented = true;
  }
  stopPropagation() {}
  stopImmediatePropagation() { this.#state.stopped = true; }
}
const { stateOf } = Event;
delete Event.stateOf;

export class CustomEvent extends Event {
  #detail;

  constructor(type, init) {
    super(type, init);
    this.#detail = init?.detail ?? null;
  }
  get detail() { return this.#detail; }
}

function run(listener, target, event) {
  try {
    if (typeof listener.callback === "function") listener.callback.call(target, event);
    else listener.callback.handleEvent(event);
  } catch (e) {
    call("log", "error", `Uncaught in an event listener: ${inspect(e)}`);
  }
}

export class EventTarget {
  #listeners = [];

  addEventListener(type, callback, options) {
    if (callback === null || callback === undefined) return;
    const given = typeof options === "object" && options ? options : { capture: options };
    const { capture = false, once = false, signal } = given;
    const listener = { type: `${type}`, callback, capture: Boolean(capture), once };
    if (signal?.aborted || this.#find(listener) >= 0) return;
    this.#listeners.push(listener);
    signal?.addEventListener("abort", () => this.removeEventListener(type, callback, capture), { once: true });
  }
  removeEventListener(type, callback, options) {
    const capture = Boolean(typeof options === "object" && options ? options.capture : options);
    const at = this.#find({ type: `${type}`, callback, capture });
    if (at >= 0) this.#listeners.splice(at, 1);
  }
  dispatchEvent(event) {
    if (!(event instanceof Event)) throw badType('The "event" argument must be an instance of Event.');
    const state = stateOf(event);
    if (state.current) throw new DOMException("The event is already being dispatched", "InvalidStateError");
    state.target = state.current = this;
    for (const listener of this.#listeners.filter((l) => l.type === event.type)) {
      if (!this.#listeners.includes(listener)) continue;
      if (listener.once) this.#listeners.splice(this.#listeners.indexOf(listener), 1);
      run(listener, this, event);
      if (state.stopped) break;
    }
    state.current = null;
    return !state.prevented;
  }
  #find({ type, callback, capture }) {
    return this.#listeners.findIndex((l) => l.type === type && l.callback === callback && l.capture === capture);
  }
}

const key = Symbol("AbortSignal");
let abort;

export class AbortSignal extends EventTarget {
  #aborted = false;
  #reason;
  #handler = null;
  #dependents = [];

  constructor(given) {
    if (given !== key) throw failure(TypeError, "ERR_ILLEGAL_CONSTRUCTOR", "Illegal constructor");
    super();
  }
  static {
    abort = (signal, reason = new DOMException("This operation was aborted", "AbortError")) => {
      if (signal.#aborted) return;
      const all = new Set([signal]);
      for (const s of all) for (const d of s.#dependents) if (!d.#aborted) all.add(d);
      for (const s of all) {
        s.#aborted = true;
        s.#reason = reason;
      }
      for (const s of all) s.dispatchEvent(new Event("abort"));
    };
  }
  static abort(reason) {
    const signal = new AbortSignal(key);
    abort(signal, reason);
    return signal;
  }
  static timeout(ms) {
    const signal = new AbortSignal(key);
    setTimeout(() => abort(signal, new DOMException("The operation was aborted due to timeout", "TimeoutError")), ms);
    return signal;
  }
  static any(signals) {
    const all = [...signals];
    const result = new AbortSignal(key);
    const done = all.find((s) => s.aborted);
    if (done) abort(result, done.reason);
    else for (const s of all) s.#dependents.push(result);
    return result;
  }
  get aborted() { return this.#aborted; }
  get reason() { return this.#reason; }
  get onabort() { return this.#handler; }
  set onabort(f) {
    if (this.#handler) this.removeEventListener("abort", this.#handler);
    this.#handler = typeof f === "function" ? f : null;
    if (this.#handler) this.addEventListener("abort", this.#handler);
  }
  throwIfAborted() {
    if (this.#aborted) throw this.#reason;
  }
}

export class AbortController {
  #signal = new AbortSignal(key);

  get signal() { return this.#signal; }
  abort(reason) { abort(this.#signal, reason); }
}

tagged("Event", Event);
tagged("CustomEvent", CustomEvent);
tagged("EventTarget", EventTarget);
tagged("AbortSignal", AbortSignal);
tagged("AbortController", AbortController);
shownAs(AbortSignal, (s) => ({ aborted: s.aborted }));
shownAs(AbortController, (c) => ({ signal: c.signal }));
shownAs(Event, ({ type, defaultPrevented, timeStamp }) => ({ type, defaultPrevented, timeStamp }));
install({ Event, CustomEvent, EventTarget, AbortSignal, AbortController });
