// Buffer's encodings.
import { badType, failure, fromB64, latin1Decode, latin1Encode, toB64, utf8Decode, utf8Encode } from "../web/base.js";
import { utf16Decode } from "../web/encoding.js";

function utf16Encode(text) {
  const units = new Uint16Array(text.length);
  for (let i = 0; i < text.length; i++) units[i] = text.charCodeAt(i);
  return new Uint8Array(units.buffer);
}

/** looseBase64 decodes base64 like Node: both alphabets, ignoring invalid characters. */
function looseBase64(text) {
  try {
    return fromB64(text);
  } catch {
    const end = text.indexOf("=");
    let digits = (end < 0 ? text : text.slice(0, end)).replaceAll("-", "+").replaceAll("_", "/");
    digits = digits.replace(/[^A-Za-z0-9+/]/g, "");
    if (digits.length % 4 === 1) digits = digits.slice(0, -1);
    return fromB64(digits);
  }
}

function hexDecode(text) {
  const bad = text.search(/[^0-9a-f]/i);
  const length = bad < 0 ? text.length : bad;
  return Uint8Array.fromHex(text.slice(0, length - (length % 2)));
}

const base64 = { encode: looseBase64, decode: (b) => toB64(b) };
const base64url = { encode: looseBase64, decode: (b) => toB64(b, { alphabet: "base64url", omitPadding: true }) };
const utf8 = { encode: utf8Encode, decode: (b) => utf8Decode(b) };
const utf16le = { encode: utf16Encode, decode: utf16Decode };
const latin1 = { encode: latin1Encode, decode: latin1Decode };
const ascii = { encode: latin1Encode, decode: (b) => latin1Decode(b.map((x) => x & 0x7f)) };
const hex = { encode: hexDecode, decode: (b) => Uint8Array.prototype.toHex.call(b) };
const others = { "utf-8": utf8, binary: latin1, "utf-16le": utf16le, ucs2: utf16le, "ucs-2": utf16le };
const codecs = { utf8, hex, base64, base64url, latin1, ascii, utf16le, ...others };

/** isEncoding reports whether an encoding is supported. */
export const isEncoding = (name) => typeof name === "string" && Object.hasOwn(codecs, name.toLowerCase());

/** codec looks up an encoding. Its encode converts text to bytes, and decode converts bytes to text. */
export function codec(name) {
  if (name === undefined || name === null || name === "") return utf8;
  if (isEncoding(name)) return codecs[name.toLowerCase()];
  throw failure(TypeError, "ERR_UNKNOWN_ENCODING", `Unknown encoding: ${name}`);
}

/** dataBytes returns the bytes of a string in an encoding, or of a buffer or view. */
export function dataBytes(data, encoding) {
  if (typeof data === "string") return codec(encoding).encode(data);
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  throw badType("The data must be a string, a Buffer, a typed array or a DataView");
}
