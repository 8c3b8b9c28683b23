// Blob, File, FormData and body streams.
import { bytesOf, concat, hide, install, isBytes, shownAs, tagged, utf8Decode, utf8Encode } from "./base.js";

const decode = (bytes) => utf8Decode(bytes).replace(/^\ufeff/, "");

/** BodyStream is a ReadableStream that delivers its bytes in one chunk. */
export class BodyStream {
  #load;
  #reader = null;
  #done = false;

  constructor(load) {
    this.#load = load;
  }
  get locked() { return this.#reader !== null; }
  async #read() {
    if (this.#done) return { value: undefined, done: true };
    this.#done = true;
    const value = await this.#load();
    return value.length ? { value, done: false } : { value: undefined, done: true };
  }
  getReader() {
    if (this.#reader) throw new TypeError("ReadableStream is locked");
    const ended = Promise.withResolvers();
    const reader = {
      closed: ended.promise,
      read: async () => {
        if (this.#reader !== reader) throw new TypeError("The reader was released");
        const step = await this.#read();
        if (step.done) ended.resolve();
        return step;
      },
      cancel: async () => {
        this.#done = true;
        ended.resolve();
      },
      releaseLock: () => {
        if (this.#reader === reader) this.#reader = null;
      },
    };
    this.#reader = reader;
    return reader;
  }
  async cancel() {
    if (this.#reader) throw new TypeError("ReadableStream is locked");
    this.#done = true;
  }
  tee() {
    const reader = this.getReader();
    let step;
    const load = async () => (await (step ??= reader.read())).value ?? new Uint8Array(0);
    return [new BodyStream(load), new BodyStream(async () => (await load()).slice())];
  }
  async *values() {
    const reader = this.getReader();
    try {
      for (let step = await reader.read(); !step.done; step = await reader.read()) yield step.value;
    } finally {
      reader.releaseLock();
    }
  }
  [Symbol.asyncIterator]() { return this.values(); }
}

function partBytes(part) {
  if (part instanceof Blob) return bytesIn(part);
  return isBytes(part) ? bytesOf(part).slice() : utf8Encode(`${part}`);
}

let bytesIn;

export class Blob {
  #bytes;
  #type;

  constructor(parts = [], options = {}) {
    if (typeof parts !== "object" || parts === null || !parts[Symbol.iterator]) {
      throw new TypeError("The \"sources\" argument must be an iterable");
    }
    this.#bytes = concat(Array.from(parts, partBytes));
    const type = `${options?.type ?? ""}`;
    this.#type = /^[\x20-\x7e]*$/.test(type) ? type.toLowerCase() : "";
  }
  static {
    bytesIn = (blob) => blob.#bytes;
  }
  get size() { return this.#bytes.length; }
  get type() { return this.#type; }
  slice(start, end, type = "") { return new Blob([this.#bytes.slice(start, end)], { type }); }
  async text() { return decode(this.#bytes); }
  async arrayBuffer() { return this.#bytes.slice().buffer; }
  async bytes() { return this.#bytes.slice(); }
  stream() { return new BodyStream(() => this.#bytes.slice()); }
}

/** blobBytes returns a Blob's content, not a copy. */
export const blobBytes = bytesIn;

export class File extends Blob {
  #name;
  #modified;

  constructor(parts, name, options = {}) {
    if (arguments.length < 2) throw new TypeError("File constructor: 2 arguments required");
    super(parts, options);
    this.#name = `${name}`;
    this.#modified = Number(options?.lastModified ?? Date.now());
  }
  get name() { return this.#name; }
  get lastModified() { return this.#modified; }
}

function entryOf(value, filename) {
  if (!(value instanceof Blob)) return `${value}`.toWellFormed();
  if (value instanceof File && filename === undefined) return value;
  const { type, lastModified } = value;
  return new File([value], filename ?? "blob", { type, lastModified });
}

export class FormData {
  #list = [];

  append(name, value, filename) { this.#list.push([`${name}`.toWellFormed(), entryOf(value, filename)]); }
  delete(name) { this.#list = this.#list.filter((pair) => pair[0] !== `${name}`); }
  get(name) { return this.#list.find((pair) => pair[0] === `${name}`)?.[1] ?? null; }
  getAll(name) { return this.#list.filter((pair) => pair[0] === `${name}`).map((pair) => pair[1]); }
  has(name) { return this.#list.some((pair) => pair[0] === `${name}`); }
  set(name, value, filename) {
    const at = this.#list.findIndex((pair) => pair[0] === `${name}`);
    if (at < 0) return this.append(name, value, filename);
    this.#list = this.#list.filter((pair, i) => i <= at || pair[0] !== `${name}`);
    this.#list[at] = [`${name}`, entryOf(value, filename)];
  }
  forEach(f, self) {
    for (const [name, value] of this) f.call(self, value, name, this);
  }
  *entries() {
    for (const pair of this.#list) yield [...pair];
  }
  *keys() {
    for (const [name] of this.#list) yield name;
  }
  *values() {
    for (const [, value] of this.#list) yield value;
  }
}
hide(FormData.prototype, Symbol.iterator, FormData.prototype.entries);

/** multipart encodes a form as multipart/form-data. */
export function multipart(form, boundary) {
  const escape = (s) => s.replace(/\r\n?|\n/g, "%0D%0A").replaceAll('"', "%22");
  const chunks = [];
  for (const [name, value] of form) {
    const head = `--${boundary}\r\nContent-Disposition: form-data; name="${escape(name)}"`;
    if (typeof value === "string") chunks.push(utf8Encode(`${head}\r\n\r\n${value.replace(/\r\n?|\n/g, "\r\n")}\r\n`));
    else {
      const type = value.type || "application/octet-stream";
      const more = `; filename="${escape(value.name)}"\r\nContent-Type: ${type}\r\n\r\n`;
      chunks.push(utf8Encode(head + more), blobBytes(value), utf8Encode("\r\n"));
    }
  }
  return concat([...chunks, utf8Encode(`--${boundary}--\r\n`)]);
}

tagged("ReadableStream", BodyStream);
tagged("Blob", Blob);
tagged("File", File);
tagged("FormData", FormData);
shownAs(Blob, (b) => ({ size: b.size, type: b.type }));
shownAs(File, (f) => ({ size: f.size, type: f.type, name: f.name, lastModified: f.lastModified }));
shownAs(FormData, (form) => [...form]);
install({ Blob, File, FormData });
