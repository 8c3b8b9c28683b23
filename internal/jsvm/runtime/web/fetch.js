// Request, Response and fetch.
import { post, thrownAt } from "../core.js";
import { fromB64, install, shownAs, tagged, toB64 } from "./base.js";
import { Body, bodyTools, extract } from "./body.js";
import { AbortSignal } from "./event.js";
import { Headers } from "./headers.js";
import { URL } from "./url.js";

const usualMethods = ["DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT"];
const redirectStatuses = [301, 302, 303, 307, 308];
const bodilessStatuses = [101, 103, 204, 205, 304];

function methodOf(value) {
  const method = `${value}`;
  const upper = method.toUpperCase();
  if (!/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(method)) throw new TypeError(`'${method}' is not a valid HTTP method`);
  if (["CONNECT", "TRACE", "TRACK"].includes(upper)) throw new TypeError(`'${method}' HTTP method is unsupported`);
  return usualMethods.includes(upper) ? upper : method;
}

function urlOf(input) {
  let url;
  try {
    url = new URL(input);
  } catch (cause) {
    throw new TypeError(`Failed to parse URL from ${input}`, { cause });
  }
  if (url.username || url.password) {
    throw new TypeError(`Request cannot be constructed from a URL that includes credentials: ${url}`);
  }
  return url.href;
}

function redirectOf(value) {
  if (!["follow", "error", "manual"].includes(value)) throw new TypeError(`'${value}' is not a redirect mode`);
  return value;
}

export class Request extends Body {
  #url;
  #method;
  #headers;
  #redirect;
  #signal;

  constructor(input, init = {}) {
    super();
    const from = input instanceof Request ? input : null;
    init ??= {};
    this.#url = from ? from.url : urlOf(input);
    this.#method = init.method === undefined ? (from?.method ?? "GET") : methodOf(init.method);
    this.#headers = new Headers(init.headers ?? from?.headers);
    this.#redirect = redirectOf(init.redirect ?? from?.redirect ?? "follow");
    this.#signal = (init.signal === undefined ? from?.signal : init.signal) ?? null;
    if (this.#signal && !(this.#signal instanceof AbortSignal)) throw new TypeError("signal must be an AbortSignal");
    const body = init.body ?? null;
    const bodiless = this.#method === "GET" || this.#method === "HEAD";
    if (bodiless && (body !== null || (init.method !== undefined && from?.body))) {
      throw new TypeError("Request with GET/HEAD method cannot have body.");
    }
    this.#fill(body, from);
  }
  #fill(body, from) {
    if (body !== null) {
      const { load, type } = extract(body);
      bodyTools.fill(this, load);
      if (type && !this.#headers.has("content-type")) this.#headers.set("content-type", type);
    } else if (from?.body) {
      if (from.bodyUsed) {
        throw new TypeError("Cannot construct a Request with a Request object that has already been used.");
      }
      bodyTools.fill(this, () => bodyTools.take(from));
    }
  }
  get url() { return this.#url; }
  get method() { return this.#method; }
  get headers() { return this.#headers; }
  get redirect() { return this.#redirect; }
  get signal() { return (this.#signal ??= new AbortController().signal); }
  get credentials() { return "same-origin"; }
  get mode() { return "cors"; }
  get cache() { return "default"; }
  get referrer() { return "about:client"; }
  get integrity() { return ""; }
  get keepalive() { return false; }
  get duplex() { return "half"; }
  clone() {
    const { method, headers, redirect, signal } = this;
    const copy = new Request(this.#url, { method, headers, redirect, signal });
    bodyTools.share(this, copy);
    return copy;
  }
}

let details;

export class Response extends Body {
  #status;
  #text;
  #headers;
  #more = { type: "default", url: "", redirected: false };

  constructor(body = null, init = {}) {
    super();
    init ??= {};
    const status = init.status === undefined ? 200 : Number(init.status);
    if (!Number.isInteger(status) || status < 200 || status > 599) {
      throw new RangeError(`init["status"] must be in the range of 200 to 599, inclusive.`);
    }
    this.#status = status;
    this.#text = `${init.statusText ?? ""}`;
    this.#headers = new Headers(init.headers);
    if (body === null || body === undefined) return;
    if (bodilessStatuses.includes(status)) {
      throw new TypeError(`Response constructor: Invalid response status code ${status}`);
    }
    const { load, type } = extract(body);
    bodyTools.fill(this, load);
    if (type && !this.#headers.has("content-type")) this.#headers.set("content-type", type);
  }
  static {
    details = (response, status, more) => {
      response.#status = status;
      response.#more = { ...response.#more, ...more };
      return response;
    };
  }
  static error() { return details(new Response(), 0, { type: "error" }); }
  static redirect(url, status = 302) {
    if (!redirectStatuses.includes(status)) throw new RangeError(`Invalid status code ${status}`);
    return new Response(null, { status, headers: { location: new URL(url).href } });
  }
  static json(data, init = {}) {
    const text = JSON.stringify(data);
    if (text === undefined) throw new TypeError("Value is not JSON serializable");
    const headers = new Headers(init?.headers);
    if (!headers.has("content-type")) headers.set("content-type", "application/json");
    return new Response(text, { ...init, headers });
  }
  get status() { return this.#status; }
  get statusText() { return this.#text; }
  get ok() { return this.#status >= 200 && this.#status <= 299; }
  get headers() { return this.#headers; }
  get type() { return this.#more.type; }
  get url() { return this.#more.url; }
  get redirected() { return this.#more.redirected; }
  clone() {
    const copy = new Response(null, { statusText: this.#text, headers: this.#headers });
    details(copy, this.#status, this.#more);
    bodyTools.share(this, copy);
    return copy;
  }
}

function responseOf(request, answer) {
  const { status, statusText, headers, url, redirected, body } = answer;
  if (request.redirect === "error" && redirectStatuses.includes(status)) throw new Error("unexpected redirect");
  const response = new Response(null, { statusText });
  for (const [name, value] of headers ?? []) response.headers.append(name, value);
  if (body !== undefined && body !== null && !bodilessStatuses.includes(status) && request.method !== "HEAD") {
    let bytes;
    bodyTools.fill(response, () => (bytes ??= fromB64(body)));
  }
  return details(response, status, { type: "basic", url: url ?? request.url, redirected: Boolean(redirected) });
}

async function send(request) {
  const { url, method, redirect } = request;
  const headers = [...request.headers];
  const body = request.body ? toB64(await bodyTools.take(request)) : undefined;
  try {
    return responseOf(request, await post("fetch", { url, method, headers, body, redirect }));
  } catch (cause) {
    if (cause?.name === "NotCapable") throw cause;
    throw new TypeError(`fetch failed: ${cause?.message}`, { cause });
  }
}

/** fetch sends a request through the host. */
async function fetch(input, init) {
  const { stack } = new Error();
  const request = new Request(input, init);
  const { signal } = request;
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers();
  const stop = () => reject(signal.reason);
  signal.addEventListener("abort", stop);
  send(request).then(resolve, (e) => reject(thrownAt(e, stack)));
  try {
    return await promise;
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

tagged("Request", Request);
tagged("Response", Response);
shownAs(Request, ({ method, url, headers, redirect, bodyUsed }) => ({ method, url, headers, redirect, bodyUsed }));
shownAs(Response, (r) => ({
  status: r.status,
  statusText: r.statusText,
  headers: r.headers,
  bodyUsed: r.bodyUsed,
  ok: r.ok,
  redirected: r.redirected,
  type: r.type,
  url: r.url,
}));
install({ Request, Response, fetch });
Object.defineProperty(fetch, "name", { value: "fetch" });
