// Headers.
import { hide, install, shownAs, tagged } from "./base.js";

const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

function nameOf(value) {
  const name = `${value}`;
  if (!token.test(name)) throw new TypeError(`${JSON.stringify(name)} is not a valid header name`);
  return name.toLowerCase();
}

function valueOf(value) {
  const text = `${value}`.replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, "");
  if (/[\0\r\n]|[^\x00-\xff]/.test(text)) throw new TypeError(`${JSON.stringify(text)} is not a valid header value`);
  return text;
}

export class Headers {
  #map = new Map();

  constructor(init) {
    if (init === undefined) return;
    if (typeof init !== "object" || init === null) throw new TypeError("Headers constructor: init must be an object or a sequence of pairs");
    const list = typeof init[Symbol.iterator] === "function" ? init : Object.entries(init);
    for (const pair of list) {
      const [name, value, ...rest] = pair;
      if (rest.length || value === undefined) throw new TypeError("Headers constructor: expected name/value pair to be length 2");
      this.append(name, value);
    }
  }
  append(name, value) {
    const key = nameOf(name);
    const text = valueOf(value);
    const list = this.#map.get(key);
    if (list) list.push(text);
    else this.#map.set(key, [text]);
  }
  delete(name) { this.#map.delete(nameOf(name)); }
  get(name) {
    const key = nameOf(name);
    return this.#map.get(key)?.join(key === "cookie" ? "; " : ", ") ?? null;
  }
  getSetCookie() { return [...(this.#map.get("set-cookie") ?? [])]; }
  has(name) { return this.#map.has(nameOf(name)); }
  set(name, value) { this.#map.set(nameOf(name), [valueOf(value)]); }
  forEach(f, self) {
    for (const [name, value] of this) f.call(self, value, name, this);
  }
  *entries() {
    for (const name of [...this.#map.keys()].sort()) {
      if (name === "set-cookie") for (const value of this.getSetCookie()) yield [name, value];
      else yield [name, this.get(name)];
    }
  }
  *keys() {
    for (const [name] of this.entries()) yield name;
  }
  *values() {
    for (const [, value] of this.entries()) yield value;
  }
}

hide(Headers.prototype, Symbol.iterator, Headers.prototype.entries);
tagged("Headers", Headers);
shownAs(Headers, (headers) => Object.fromEntries(headers));
install({ Headers });
