// URL.
import { failure, install, shownAs, tagged } from "./base.js";
import { percentEncode, sets } from "./percent.js";
import { URLSearchParams, linkParams } from "./searchparams.js";
import { parseHost } from "./urlhost.js";
import * as p from "./urlparse.js";

function parse(input, base) {
  let from = null;
  if (base !== undefined) {
    from = p.parseURL(`${base}`, null);
    if (!from) return null;
  }
  return p.parseURL(`${input}`, from);
}

function originOf(url) {
  if (url.scheme === "blob:") {
    const inner = p.parseURL(p.pathText(url), null);
    return inner && /^https?:$/.test(inner.scheme) ? originOf(inner) : "null";
  }
  return p.isSpecial(url) && url.scheme !== "file:" ? `${url.scheme}//${p.hostText(url)}` : "null";
}

export class URL {
  #url;
  #params;

  constructor(input, base) {
    if (arguments.length === 0) throw failure(TypeError, "ERR_MISSING_ARGS", 'The "url" argument must be specified');
    this.#url = parse(input, base);
    if (this.#url) return;
    const e = failure(TypeError, "ERR_INVALID_URL", `Invalid URL: ${input}`);
    e.input = `${input}`;
    if (base !== undefined) e.base = `${base}`;
    throw e;
  }
  static canParse(input, base) { return parse(input, base) !== null; }
  static parse(input, base) { return URL.canParse(input, base) ? new URL(input, base) : null; }
  get href() { return p.urlText(this.#url); }
  set href(value) {
    this.#url = new URL(value).#url;
    this.#refresh();
  }
  get origin() { return originOf(this.#url); }
  get protocol() { return this.#url.scheme; }
  set protocol(value) {
    const url = this.#url;
    const match = /^([a-z][a-z0-9+.-]*)(:|$)/i.exec(p.clean(`${value}`));
    if (!match) return;
    const scheme = match[1].toLowerCase() + ":";
    if (p.isSpecial(url) !== p.isSpecial({ scheme })) return;
    if (scheme === "file:" && (url.username || url.password || url.port !== null)) return;
    if (url.scheme === "file:" && url.host === "") return;
    url.scheme = scheme;
    if (url.port === p.defaultPorts[scheme]) url.port = null;
  }
  get username() { return this.#url.username; }
  set username(value) {
    if (this.#hasServer()) this.#url.username = percentEncode(`${value}`.toWellFormed(), sets.userinfo);
  }
  get password() { return this.#url.password; }
  set password(value) {
    if (this.#hasServer()) this.#url.password = percentEncode(`${value}`.toWellFormed(), sets.userinfo);
  }
  get host() { return p.hostText(this.#url); }
  set host(value) { this.#setHost(`${value}`, true); }
  get hostname() { return this.#url.host ?? ""; }
  set hostname(value) { this.#setHost(`${value}`, false); }
  get port() { return this.#url.port === null ? "" : `${this.#url.port}`; }
  set port(value) {
    const text = p.clean(`${value}`);
    if (!this.#hasServer()) return;
    if (text === "") this.#url.port = null;
    else p.setPort(this.#url, /^\d*/.exec(text)[0]);
  }
  get pathname() { return p.pathText(this.#url); }
  set pathname(value) {
    const url = this.#url;
    if (typeof url.path === "string") return;
    const text = p.clean(`${value}`.toWellFormed());
    url.path = [];
    if (text === "" && !p.isSpecial(url)) {
      if (url.host === null) url.path = [""];
      return;
    }
    p.appendPath(url, (p.isSpecial(url) ? /^[/\\]/ : /^\//).test(text) ? text.slice(1) : text);
  }
  get search() { return this.#url.query ? "?" + this.#url.query : ""; }
  set search(value) {
    const text = p.clean(`${value}`.toWellFormed());
    this.#url.query = text === "" ? null : p.encodeQuery(this.#url, text.replace(/^\?/, ""));
    this.#refresh();
  }
  get searchParams() {
    this.#params ??= linkParams(this.#url.query ?? "", (text) => {
      this.#url.query = text === "" ? null : text;
    });
    return this.#params;
  }
  get hash() { return this.#url.fragment ? "#" + this.#url.fragment : ""; }
  set hash(value) {
    const text = p.clean(`${value}`.toWellFormed());
    this.#url.fragment = text === "" ? null : percentEncode(text.replace(/^#/, ""), sets.fragment);
  }
  toString() { return this.href; }
  toJSON() { return this.href; }
  #hasServer() { return this.#url.host !== null && this.#url.host !== "" && this.#url.scheme !== "file:"; }
  #setHost(value, withPort) {
    const url = this.#url;
    if (typeof url.path === "string") return;
    const special = p.isSpecial(url);
    const text = p.clean(value.toWellFormed()).split(special ? /[/\\?#]/ : /[/?#]/)[0];
    const { host, port } = url.scheme === "file:" ? { host: text, port: null } : p.splitPort(text);
    if (host === "" && (port !== null || (special && url.scheme !== "file:"))) return;
    if (host === "" && (url.username || url.password || url.port !== null)) return;
    if (port !== null && !withPort) return;
    const parsed = host === "" ? "" : parseHost(host, special);
    if (parsed === null) return;
    url.host = url.scheme === "file:" && parsed === "localhost" ? "" : parsed;
    if (port !== null) p.setPort(url, /^\d*/.exec(port)[0]);
  }
  #refresh() {
    if (this.#params) linkParams.refresh(this.#params, this.#url.query ?? "");
  }
}

tagged("URL", URL);
shownAs(URL, (url) => {
  const { href, origin, protocol, username, password, host, hostname, port, pathname, search, searchParams, hash } = url;
  return { href, origin, protocol, username, password, host, hostname, port, pathname, search, searchParams, hash };
});
for (const name of Object.getOwnPropertyNames(URL.prototype)) {
  if (name !== "constructor") Object.defineProperty(URL.prototype, name, { enumerable: true });
}
install({ URL, URLSearchParams });
