// The module that runs code of models. It is the same for all code, which arrives as data: an
// expression whose value is an async function. Natives are captured here, because the code may
// replace them; it can only harm itself that way, since the host checks every call.

const { Error, Promise, Proxy, TypeError, setImmediate } = globalThis;
const { construct } = Reflect;
const { create, defineProperty, hasOwn } = Object;
const evaluate = globalThis.eval;

/** ToolError is what a failed call throws. */
class ToolError extends Error {
  constructor({ code, message, retryable, retryAfterMs, issues, approval }, stack) {
    super(message);
    const hidden = { configurable: true, writable: true };
    defineProperty(this, "name", { value: "ToolError", ...hidden });
    if (stack !== undefined) defineProperty(this, "stack", { value: stack, ...hidden });
    this.code = code;
    this.retryable = retryable === true;
    if (retryAfterMs) this.retryAfterMs = retryAfterMs;
    if (issues) this.issues = issues;
    if (approval) this.approval = approval;
  }
}
globalThis.ToolError = ToolError;

/**
 * Requests sends requests to the host. If they are ordered, answers are delivered in the order of the
 * requests, one at a time: then the code makes the same requests in every run that gets the same
 * answers.
 */
class Requests {
  #host;
  #ordered;
  #sent = 0;
  #delivered = 0;
  #arrived = create(null);
  #scheduled = false;

  constructor(host, ordered) {
    this.#host = host;
    this.#ordered = ordered;
  }

  send(op, payload) {
    const stack = new Error().stack;
    const n = ++this.#sent;
    return new Promise((resolve, reject) => {
      const settle = (answer) => (answer.error ? reject(new ToolError(answer.error, stack)) : resolve(answer.value));
      const refuse = (e) => reject(defineProperty(e, "stack", { value: stack, configurable: true, writable: true }));
      this.#host.send(
        op,
        payload,
        (answer) => this.#deliver(n, () => settle(answer)),
        (e) => this.#deliver(n, () => refuse(e)),
      );
    });
  }

  #deliver(n, settle) {
    if (!this.#ordered) return settle();
    this.#arrived[n] = settle;
    this.#schedule();
  }

  #schedule() {
    if (this.#scheduled || !this.#arrived[this.#delivered + 1]) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      const n = ++this.#delivered;
      const settle = this.#arrived[n];
      delete this.#arrived[n];
      settle();
      this.#schedule();
    });
  }
}

/** toolsOf is the object through which the code calls tools. */
function toolsOf(requests, maxCalls) {
  let calls = 0;
  const call = (name, args = {}, ...rest) => {
    if (rest.length > 0) throw new TypeError(`tools.${name} takes one object with the arguments`);
    if (++calls > maxCalls) {
      const message = `Code can make at most ${maxCalls} calls. Return what you have, and continue in another run.`;
      return new Promise((_, reject) => reject(new ToolError({ code: "CALL_LIMIT", message })));
    }
    return requests.send("call", { n: calls, name, args });
  };
  const own = {
    call: (name, args) => call(`${name}`, args),
    search: (query, options) => requests.send("search", { query, ...options }),
    describe: (...names) => requests.send("describe", { names: names.flat() }),
  };
  const refuse = (message) => () => {
    throw new TypeError(message);
  };
  const fixed = refuse("tools cannot be changed");
  return construct(Proxy, [create(null), {
    get(_, name) {
      if (typeof name !== "string" || name === "then" || name === "toJSON") return undefined;
      return hasOwn(own, name) ? own[name] : (...args) => call(name, ...args);
    },
    set: fixed,
    defineProperty: fixed,
    deleteProperty: fixed,
    setPrototypeOf: fixed,
    ownKeys: refuse('tools cannot be listed: use await tools.search("what you need")'),
  }]);
}

export default async function run({ code, ordered, maxCalls }, host) {
  const f = evaluate(code);
  if (typeof f !== "function") throw new SyntaxError("the code closes the function that contains it: check the braces");
  return await f(toolsOf(new Requests(host, ordered), maxCalls));
}
