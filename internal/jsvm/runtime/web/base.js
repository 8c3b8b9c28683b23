// Shared helpers. Built-ins are captured once, so that a script that patches them affects only itself.

const { apply, defineProperty } = Reflect;
const { fromBase64 } = Uint8Array;
const { toBase64 } = Uint8Array.prototype;
const { atob, btoa, escape, unescape, encodeURIComponent, decodeURIComponent } = globalThis;
const nonASCII = /[^\x00-\x7f]/;
const nonLatin1 = /[^\x00-\xff]/;

/** hide defines a property like built-in ones: non-enumerable, writable and configurable. */
export function hide(object, key, value) {
  defineProperty(object, key, { value, writable: true, configurable: true, enumerable: false });
}

/** named restores the public name of a class after bundling. */
export function named(name, cls) {
  defineProperty(cls, "name", { value: name, configurable: true });
  return cls;
}

/** tagged is like named, and also sets Symbol.toStringTag. */
export function tagged(name, cls) {
  defineProperty(cls.prototype, Symbol.toStringTag, { value: name, configurable: true });
  return named(name, cls);
}

/** install defines globals. */
export function install(globals) {
  for (const key of Object.keys(globals)) hide(globalThis, key, globals[key]);
}

/** failure creates an error with a code, like Node. */
export function failure(Type, code, message) {
  const e = new Type(message);
  e.code = code;
  return e;
}

/** badType returns the error for an argument of the wrong type. */
export const badType = (message) => failure(TypeError, "ERR_INVALID_ARG_TYPE", message);

/** badRange returns the error for an argument out of range. */
export const badRange = (message) => failure(RangeError, "ERR_OUT_OF_RANGE", message);

/** abortError returns the error that Node functions throw when their signal aborts. */
export function abortError(signal) {
  const e = failure(Error, "ABORT_ERR", "The operation was aborted");
  hide(e, "name", "AbortError");
  hide(e, "cause", signal.reason);
  return e;
}

/** notCapable returns the error for a missing permission. */
export function notCapable(message) {
  const e = new Error(message);
  hide(e, "name", "NotCapable");
  return e;
}

/** isBytes reports whether a value is an ArrayBuffer or a view. */
export function isBytes(value) {
  return ArrayBuffer.isView(value) || value instanceof ArrayBuffer || value instanceof SharedArrayBuffer;
}

/** bytesOf returns the memory of an ArrayBuffer or view, not a copy. */
export function bytesOf(source) {
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  if (isBytes(source)) return new Uint8Array(source);
  throw new TypeError("The argument must be an instance of ArrayBuffer or ArrayBufferView");
}

export const toB64 = (bytes, options) => apply(toBase64, bytes, options ? [options] : []);

export const fromB64 = (text, options) => apply(fromBase64, Uint8Array, options ? [text, options] : [text]);

export const latin1Decode = (bytes) => atob(toB64(bytes));

/** latin1Encode keeps the low 8 bits of each character. */
export function latin1Encode(text) {
  if (!nonLatin1.test(text)) return fromB64(btoa(text));
  const out = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i);
  return out;
}

/** utf8Encode encodes UTF-8; lone surrogates become U+FFFD. */
export function utf8Encode(text) {
  if (!nonASCII.test(text)) return fromB64(btoa(text));
  return fromB64(btoa(unescape(encodeURIComponent(text.toWellFormed()))));
}

/** badEncoding returns the error for bytes that are invalid in an encoding. */
export function badEncoding(name) {
  return failure(TypeError, "ERR_ENCODING_INVALID_ENCODED_DATA", `The encoded data was not valid for encoding ${name}`);
}

/** utf8Decode decodes UTF-8; invalid bytes become U+FFFD, or throw a TypeError if fatal. */
export function utf8Decode(bytes, fatal = false) {
  const raw = latin1Decode(bytes);
  if (!nonASCII.test(raw)) return raw;
  try {
    return decodeURIComponent(escape(raw));
  } catch {
    if (fatal) throw badEncoding("utf-8");
    return utf8Repair(bytes);
  }
}

/** utf8Sequence returns the expected and the actual length of the sequence at a position. */
export function utf8Sequence(bytes, at) {
  const lead = bytes[at];
  if (lead < 0x80) return { need: 1, have: 1 };
  if (lead < 0xc2 || lead > 0xf4) return { need: 0, have: 1 };
  const need = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  let low = lead === 0xe0 ? 0xa0 : lead === 0xf0 ? 0x90 : 0x80;
  let high = lead === 0xed ? 0x9f : lead === 0xf4 ? 0x8f : 0xbf;
  let have = 1;
  while (have < need && bytes[at + have] >= low && bytes[at + have] <= high) {
    have++;
    low = 0x80;
    high = 0xbf;
  }
  return { need, have };
}

const block = 4096;

/** utf8Repair decodes valid blocks with the fast path, and replaces invalid bytes between them. */
function utf8Repair(bytes) {
  if (bytes.length <= block) return repairBlock(bytes);
  let out = "";
  for (let at = 0; at < bytes.length; ) {
    let end = Math.min(at + block, bytes.length);
    for (let n = 0; n < 3 && (bytes[end] & 0xc0) === 0x80; n++) end--;
    out += utf8Decode(bytes.subarray(at, end));
    at = end;
  }
  return out;
}

function repairBlock(bytes) {
  let out = "";
  let good = 0;
  for (let at = 0; at < bytes.length; ) {
    const { need, have } = utf8Sequence(bytes, at);
    if (need !== have) {
      if (at > good) out += utf8Decode(bytes.subarray(good, at));
      out += "\ufffd";
      good = at + have;
    }
    at += have;
  }
  return good < bytes.length ? out + utf8Decode(bytes.subarray(good)) : out;
}

/** concat joins arrays of bytes. */
export function concat(chunks) {
  if (chunks.length === 1) return chunks[0];
  const out = new Uint8Array(chunks.reduce((n, c) => n + c.length, 0));
  let at = 0;
  for (const c of chunks) {
    out.set(c, at);
    at += c.length;
  }
  return out;
}

/** custom is the key of a custom inspect method. */
export const custom = Symbol.for("nodejs.util.inspect.custom");

/** shownAs makes inspect show objects of a class with the fields that show returns. */
export function shownAs(cls, show) {
  hide(cls.prototype, custom, function (depth, options, inspect) {
    return `${cls.name} ${inspect(show(this), options)}`;
  });
}
