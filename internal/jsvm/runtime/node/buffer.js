// Buffer.
import { badRange, badType, concat, custom, failure, hide, install, isBytes, named } from "../web/base.js";
import { codec, dataBytes, isEncoding } from "./codec.js";
import { numberMethods } from "./numbers.js";

const wrap = (bytes) => new Buffer(bytes.buffer, bytes.byteOffset, bytes.length);
const clamp = (n, low, high) => Math.min(Math.max(Math.trunc(n) || 0, low), high);

function size(n) {
  if (typeof n !== "number") throw badType('The "size" argument must be of type number');
  if (!(n >= 0 && n <= 2 ** 32)) throw badRange(`The value of "size" is out of range: ${n}`);
  return Math.trunc(n);
}

function fromObject(value, encodingOrOffset, length) {
  if (value instanceof ArrayBuffer || value instanceof SharedArrayBuffer) {
    return new Buffer(value, encodingOrOffset, length);
  }
  if (ArrayBuffer.isView(value) || Array.isArray(value)) return wrap(new Uint8Array(value));
  if (value.type === "Buffer" && Array.isArray(value.data)) return wrap(new Uint8Array(value.data));
  const inner = value.valueOf?.();
  if (inner !== undefined && inner !== null && inner !== value) return Buffer.from(inner, encodingOrOffset, length);
  if (typeof value[Symbol.toPrimitive] === "function") {
    return Buffer.from(value[Symbol.toPrimitive]("string"), encodingOrOffset);
  }
  if (typeof value.length === "number") return wrap(new Uint8Array(value));
  throw badType("The first argument must be of type string or an instance of Buffer, ArrayBuffer, or Array or an Array-like Object.");
}

/** base64Length returns the length of decoded base64, which Node estimates from the text's length. */
function base64Length(text) {
  const padding = text.endsWith("==") && text.length > 2 ? 2 : text.endsWith("=") ? 1 : 0;
  return ((text.length - padding) * 3) >>> 2;
}

/** needle converts a search value to bytes. */
function needle(value, encoding) {
  if (typeof value === "number") return Uint8Array.of(value);
  if (typeof value === "string" || ArrayBuffer.isView(value)) return dataBytes(value, encoding);
  throw badType('The "value" argument must be a number, a string, a Buffer or a Uint8Array');
}

function matches(bytes, at, part) {
  for (let i = 0; i < part.length; i++) if (bytes[at + i] !== part[i]) return false;
  return true;
}

function search(bytes, value, offset, encoding, last) {
  if (typeof offset === "string") [offset, encoding] = [undefined, offset];
  const part = needle(value, encoding);
  const n = bytes.length;
  let at = Number.isNaN(+offset) || offset === undefined ? (last ? n : 0) : Math.trunc(+offset);
  if (at < 0) at = last || n + at > 0 ? n + at : 0;
  if (part.length === 0) return clamp(at, 0, n);
  const first = Uint8Array.prototype[last ? "lastIndexOf" : "indexOf"];
  for (at = Math.min(at, n - (last ? part.length : 0)); at >= 0; at += last ? -1 : 1) {
    at = first.call(bytes, part[0], at);
    if (at < 0 || (!last && at + part.length > n)) return -1;
    if (matches(bytes, at, part)) return at;
  }
  return -1;
}

function swapped(buffer, width) {
  if (buffer.length % width) {
    throw failure(RangeError, "ERR_INVALID_BUFFER_SIZE", `Buffer size must be a multiple of ${width * 8}-bits`);
  }
  for (let i = 0; i < buffer.length; i += width) buffer.subarray(i, i + width).reverse();
  return buffer;
}

export class Buffer extends Uint8Array {
  constructor(value = 0, encodingOrOffset, length) {
    if (typeof value === "string") {
      const bytes = codec(encodingOrOffset).encode(value);
      super(bytes.buffer, bytes.byteOffset, bytes.length);
    } else super(value, encodingOrOffset, length);
  }
  static from(value, encodingOrOffset, length) {
    if (typeof value === "string") return wrap(codec(encodingOrOffset).encode(value));
    if (typeof value === "object" && value !== null) return fromObject(value, encodingOrOffset, length);
    throw badType("The first argument must be a string, Buffer, ArrayBuffer, Array or array-like object");
  }
  static alloc(n, fill, encoding) {
    const buffer = new Buffer(size(n));
    return fill === undefined || fill === 0 || n === 0 ? buffer : buffer.fill(fill, encoding);
  }
  static allocUnsafe(n) { return new Buffer(size(n)); }
  static allocUnsafeSlow(n) { return new Buffer(size(n)); }
  static concat(list, total) {
    if (!Array.isArray(list)) throw badType('The "list" argument must be an array');
    const all = list.length ? concat(list.map((b) => dataBytes(b))) : new Uint8Array(0);
    if (total === undefined || total === all.length) return wrap(all.slice());
    const out = Buffer.alloc(total);
    out.set(all.subarray(0, total));
    return out;
  }
  static byteLength(value, encoding) {
    if (isBytes(value)) return value.byteLength;
    const name = isEncoding(encoding) ? encoding.toLowerCase() : "utf8";
    if (name === "hex") return value.length >>> 1;
    if (name.startsWith("base64")) return base64Length(value);
    return dataBytes(value, name).length;
  }
  static compare(a, b) {
    for (const x of [a, b]) if (!(x instanceof Uint8Array)) throw badType("The arguments must be an instance of Buffer or Uint8Array.");
    const n = Math.min(a.length, b.length);
    for (let i = 0; i < n; i++) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
    return Math.sign(a.length - b.length);
  }
  static isBuffer(value) { return value instanceof Buffer; }
  static isEncoding(name) { return isEncoding(name); }
  get parent() { return this.buffer; }
  get offset() { return this.byteOffset; }
  toString(encoding, start = 0, end = this.length) {
    const from = clamp(start, 0, this.length);
    const to = clamp(end, from, this.length);
    return codec(encoding).decode(new Uint8Array(this.buffer, this.byteOffset + from, to - from));
  }
  toLocaleString(encoding, start, end) { return this.toString(encoding, start, end); }
  toJSON() { return { type: "Buffer", data: Array.from(this) }; }
  slice(start, end) { return this.subarray(start, end); }
  equals(other) { return this === other || Buffer.compare(this, other) === 0; }
  compare(other, start = 0, end = other.length, from = 0, to = this.length) {
    return Buffer.compare(this.subarray(from, to), dataBytes(other).subarray(start, end));
  }
  copy(target, at = 0, start = 0, end = this.length) {
    const part = dataBytes(this).subarray(start, Math.min(end, start + Math.max(target.length - at, 0)));
    target.set(part, at > target.length ? target.length : at);
    return part.length;
  }
  write(text, offset, length, encoding) {
    if (typeof offset === "string") [offset, length, encoding] = [0, undefined, offset];
    else if (typeof length === "string") [length, encoding] = [undefined, length];
    const at = offset ?? 0;
    if (!(at >= 0 && at <= this.length)) throw badRange(`The value of "offset" is out of range: ${at}`);
    const bytes = codec(encoding).encode(`${text}`);
    let n = Math.min(bytes.length, length ?? Infinity, this.length - at);
    if (codec(encoding) === codec("utf8")) while (n > 0 && n < bytes.length && (bytes[n] & 0xc0) === 0x80) n--;
    if (codec(encoding) === codec("utf16le")) n &= ~1;
    this.set(bytes.subarray(0, n), at);
    return n;
  }
  fill(value, start, end, encoding) {
    if (typeof start === "string") [start, end, encoding] = [0, this.length, start];
    else if (typeof end === "string") [end, encoding] = [this.length, end];
    const [from, to] = [start ?? 0, end ?? this.length];
    if (!(from >= 0 && to <= this.length)) throw badRange("The range is out of the buffer");
    if (typeof value !== "string" && !ArrayBuffer.isView(value)) return super.fill(Number(value) & 255, from, to);
    const part = dataBytes(value, encoding);
    if (part.length === 0 && value.length) {
      throw failure(TypeError, "ERR_INVALID_ARG_VALUE", "The argument 'value' is invalid");
    }
    if (part.length <= 1) return super.fill(part[0] ?? 0, from, to);
    for (let at = from; at < to; at += part.length) this.set(part.subarray(0, to - at), at);
    return this;
  }
  indexOf(value, offset, encoding) { return search(this, value, offset, encoding, false); }
  lastIndexOf(value, offset, encoding) { return search(this, value, offset, encoding, true); }
  includes(value, offset, encoding) { return this.indexOf(value, offset, encoding) >= 0; }
  swap16() { return swapped(this, 2); }
  swap32() { return swapped(this, 4); }
  swap64() { return swapped(this, 8); }
  [custom]() {
    const shown = [...dataBytes(this).subarray(0, 50)].map((b) => b.toString(16).padStart(2, "0"));
    const more = this.length > 50 ? ` ... ${this.length - 50} more byte${this.length > 51 ? "s" : ""}` : "";
    return `<Buffer ${shown.join(" ")}${more}>`;
  }
}

for (const [name, method] of numberMethods()) hide(Buffer.prototype, name, method);
hide(Buffer, "poolSize", 8192);
install({ Buffer: named("Buffer", Buffer) });
