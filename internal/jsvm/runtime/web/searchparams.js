// URLSearchParams.
import { custom, failure, hide, tagged } from "./base.js";
import { percentDecode, percentEncode, sets } from "./percent.js";

function parseForm(text) {
  const parts = text.split("&").filter((part) => part !== "");
  return parts.map((part) => {
    const at = part.indexOf("=");
    const pair = at < 0 ? [part, ""] : [part.slice(0, at), part.slice(at + 1)];
    return pair.map((s) => percentDecode(s.replaceAll("+", " ")));
  });
}

const encode = (text) => percentEncode(text, sets.form).replaceAll(" ", "+");
const str = (value) => `${value}`.toWellFormed();

function pairsOf(init) {
  if (init === undefined || init === null) return [];
  if (typeof init !== "object" && typeof init !== "function") return parseForm(str(init).replace(/^\?/, ""));
  if (init[Symbol.iterator] === undefined || init[Symbol.iterator] === null) {
    const names = Reflect.ownKeys(init).filter((k) => Object.getOwnPropertyDescriptor(init, k)?.enumerable);
    return [...new Map(names.map((k) => [str(k), str(init[k])]))];
  }
  return Array.from(init, (pair) => {
    const list = typeof pair === "object" && pair !== null ? [...pair] : [];
    if (list.length !== 2) {
      throw failure(TypeError, "ERR_INVALID_TUPLE", "Each query pair must be an iterable [name, value] tuple");
    }
    return list.map(str);
  });
}

let link;

export class URLSearchParams {
  #list;
  #changed = () => {};

  constructor(init) {
    this.#list = pairsOf(init);
  }
  static {
    link = (text, changed) => {
      const params = new URLSearchParams();
      params.#list = parseForm(text);
      params.#changed = () => changed(params.toString());
      return params;
    };
    link.refresh = (params, text) => {
      params.#list = parseForm(text);
    };
  }
  get size() { return this.#list.length; }
  append(name, value) {
    this.#list.push([str(name), str(value)]);
    this.#changed();
  }
  delete(name, value) {
    this.#list = this.#list.filter((pair) => pair[0] !== str(name) || (value !== undefined && pair[1] !== str(value)));
    this.#changed();
  }
  get(name) { return this.#list.find((pair) => pair[0] === str(name))?.[1] ?? null; }
  getAll(name) { return this.#list.filter((pair) => pair[0] === str(name)).map((pair) => pair[1]); }
  has(name, value) {
    return this.#list.some((pair) => pair[0] === str(name) && (value === undefined || pair[1] === str(value)));
  }
  set(name, value) {
    const first = this.#list.find((pair) => pair[0] === str(name));
    if (!first) return this.append(name, value);
    first[1] = str(value);
    this.#list = this.#list.filter((pair) => pair === first || pair[0] !== first[0]);
    this.#changed();
  }
  sort() {
    this.#list.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    this.#changed();
  }
  forEach(f, self) {
    for (const [name, value] of this) f.call(self, value, name, this);
  }
  *entries() {
    for (let i = 0; i < this.#list.length; i++) yield [...this.#list[i]];
  }
  *keys() {
    for (const [name] of this.entries()) yield name;
  }
  *values() {
    for (const [, value] of this.entries()) yield value;
  }
  toString() { return this.#list.map(([name, value]) => `${encode(name)}=${encode(value)}`).join("&"); }
}

hide(URLSearchParams.prototype, Symbol.iterator, URLSearchParams.prototype.entries);
hide(tagged("URLSearchParams", URLSearchParams).prototype, custom, function (depth, options, inspect) {
  const pairs = [...this].map(([name, value]) => `${inspect(name)} => ${inspect(value)}`);
  return pairs.length ? `URLSearchParams { ${pairs.join(", ")} }` : "URLSearchParams {}";
});

/** linkParams creates a URL's parameters. When they change, they update the URL. */
export const linkParams = link;
