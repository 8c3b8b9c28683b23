// The small modules: os, querystring, string_decoder, timers.
import { abortError, concat, named } from "../web/base.js";
import { TextDecoder } from "../web/encoding.js";
import { percentDecode } from "../web/percent.js";
import { dataBytes, codec } from "./codec.js";

const { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate } = globalThis;

/** os is node:os with constants that reveal nothing about the machine. */
export const os = {
  EOL: "\n",
  devNull: "/dev/null",
  constants: { signals: {}, errno: {} },
  arch: () => "wasm32",
  availableParallelism: () => 1,
  cpus: () => [],
  endianness: () => "LE",
  freemem: () => 0,
  homedir: () => "/",
  hostname: () => "toolyard",
  loadavg: () => [0, 0, 0],
  machine: () => "wasm32",
  networkInterfaces: () => ({}),
  platform: () => "linux",
  release: () => "0.0.0",
  tmpdir: () => "/tmp",
  totalmem: () => 0,
  type: () => "Linux",
  uptime: () => performance.now() / 1000,
  userInfo: () => ({ uid: -1, gid: -1, username: "toolyard", homedir: "/", shell: null }),
  version: () => "toolyard",
};

const escapeQuery = (text) => encodeURIComponent(`${text}`.toWellFormed());
const queryValue = (v) => (["string", "bigint", "boolean"].includes(typeof v) || Number.isFinite(v) ? `${v}` : "");

function parseQuery(text, separator = "&", equals = "=", options = {}) {
  const { maxKeys = 1000, decodeURIComponent: decode = percentDecode } = options;
  const out = Object.create(null);
  const parts = typeof text === "string" ? text.split(separator).filter((part) => part !== "") : [];
  for (const part of maxKeys > 0 ? parts.slice(0, maxKeys) : parts) {
    const at = part.indexOf(equals);
    const pair = at < 0 ? [part, ""] : [part.slice(0, at), part.slice(at + equals.length)];
    const [key, value] = pair.map((s) => decode(s.replaceAll("+", " ")));
    if (key in out) out[key] = [out[key], value].flat();
    else out[key] = value;
  }
  return out;
}

function stringifyQuery(object, separator = "&", equals = "=", { encodeURIComponent: encode = escapeQuery } = {}) {
  const pair = (key, value) => encode(key) + equals + encode(queryValue(value));
  const pairs = Object.entries(object ?? {}).flatMap(([key, v]) => [v].flat().map((value) => pair(key, value)));
  return pairs.join(separator);
}

/** querystring is node:querystring. */
export const querystring = {
  parse: parseQuery,
  decode: parseQuery,
  stringify: stringifyQuery,
  encode: stringifyQuery,
  escape: escapeQuery,
  unescape: percentDecode,
};

const otherNames = { "utf-8": "utf8", ucs2: "utf16le", "ucs-2": "utf16le", "utf-16le": "utf16le", binary: "latin1" };

/** StringDecoder decodes bytes in chunks. */
export class StringDecoder {
  #decoder = null;
  #rest = new Uint8Array(0);

  constructor(encoding = "utf8") {
    const name = `${encoding}`.toLowerCase();
    this.encoding = otherNames[name] ?? name;
    codec(this.encoding);
    if (this.encoding === "utf8" || this.encoding === "utf16le") {
      this.#decoder = new TextDecoder(this.encoding === "utf8" ? "utf-8" : "utf-16le", { ignoreBOM: true });
    }
  }
  write(data) {
    if (typeof data === "string") return data;
    const bytes = dataBytes(data);
    if (this.#decoder) return this.#decoder.decode(bytes, { stream: true });
    const all = concat([this.#rest, bytes]);
    const end = /^base64/.test(this.encoding) ? all.length - (all.length % 3) : all.length;
    this.#rest = all.slice(end);
    return codec(this.encoding).decode(all.subarray(0, end));
  }
  end(data) {
    const text = data === undefined ? "" : this.write(data);
    if (this.#decoder) return text + this.#decoder.decode();
    const rest = codec(this.encoding).decode(this.#rest);
    this.#rest = new Uint8Array(0);
    return text + rest;
  }
}
named("StringDecoder", StringDecoder);

/** timers is node:timers. */
export const timers = { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate };

function wait(start, value, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(abortError(signal));
    const timer = start(() => resolve(value));
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(abortError(signal));
    });
  });
}

/** timersPromises is node:timers/promises. */
export const timersPromises = {
  setTimeout: (ms, value, { signal } = {}) => wait((f) => setTimeout(f, ms), value, signal),
  setImmediate: (value, { signal } = {}) => wait((f) => setImmediate(f), value, signal),
  async *setInterval(ms, value, options) {
    for (;;) yield await timersPromises.setTimeout(ms, value, options);
  },
};
timersPromises.scheduler = { wait: (ms, options) => timersPromises.setTimeout(ms, undefined, options) };
timers.promises = timersPromises;
