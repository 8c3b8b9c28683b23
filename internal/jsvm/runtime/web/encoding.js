// TextEncoder and TextDecoder.
import {
  badEncoding, badType, bytesOf, concat, failure, install, isBytes,
  latin1Decode, tagged, utf8Decode, utf8Encode, utf8Sequence,
} from "./base.js";

const labels = {
  "utf-8": ["utf-8", "utf8", "unicode-1-1-utf-8", "unicode11utf8", "unicode20utf8", "x-unicode20utf8"],
  "utf-16le": ["utf-16le", "utf-16", "ucs-2", "csunicode", "iso-10646-ucs-2", "unicode", "unicodefeff"],
  "utf-16be": ["utf-16be", "unicodefffe"],
  "windows-1252": [
    ..."windows-1252 ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100".split(" "),
    ..."iso8859-1 iso88591 iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii x-cp1252".split(" "),
  ],
};
const names = new Map(Object.entries(labels).flatMap(([name, list]) => list.map((l) => [l, name])));
const high1252 =
  "\u20ac\x81\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\x8d\u017d\x8f" +
  "\x90\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\x9d\u017e\u0178";

export class TextEncoder {
  get encoding() { return "utf-8"; }
  encode(text = "") { return utf8Encode(`${text}`); }
  encodeInto(text, target) {
    const source = `${text}`;
    let fits = source;
    let bytes = utf8Encode(source);
    if (bytes.length > target.length) {
      let end = target.length;
      while (end > 0 && (bytes[end] & 0xc0) === 0x80) end--;
      bytes = bytes.subarray(0, end);
      fits = utf8Decode(bytes);
    }
    target.set(bytes);
    return { read: fits.length, written: bytes.length };
  }
}

/** openEnd returns the number of trailing bytes that form an incomplete UTF-8 sequence. */
function openEnd(bytes) {
  for (let n = 1; n <= 3 && n <= bytes.length; n++) {
    const at = bytes.length - n;
    if ((bytes[at] & 0xc0) === 0x80) continue;
    const { need, have } = utf8Sequence(bytes, at);
    return need > have && have === n ? n : 0;
  }
  return 0;
}

/** utf16Decode decodes UTF-16 and keeps lone surrogates. */
export function utf16Decode(bytes) {
  const units = new Uint16Array(bytes.slice(0, bytes.length & ~1).buffer);
  let out = "";
  for (let i = 0; i < units.length; i += 8192) out += String.fromCharCode.apply(null, units.subarray(i, i + 8192));
  return out;
}

function swap(bytes) {
  const out = bytes.slice();
  for (let i = 0; i + 1 < out.length; i += 2) [out[i], out[i + 1]] = [out[i + 1], out[i]];
  return out;
}

function decode1252(bytes) {
  return latin1Decode(bytes).replace(/[\x80-\x9f]/g, (c) => high1252[c.charCodeAt(0) - 128]);
}

/** TextDecoder decodes UTF-8, UTF-16 and windows-1252, of which latin1 and ascii are aliases. */
export class TextDecoder {
  #name;
  #fatal;
  #keepBOM;
  #pending = new Uint8Array(0);
  #started = false;

  constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
    this.#name = names.get(`${label}`.trim().toLowerCase());
    if (!this.#name) {
      throw failure(RangeError, "ERR_ENCODING_NOT_SUPPORTED", `The "${label}" encoding is not supported`);
    }
    this.#fatal = Boolean(fatal);
    this.#keepBOM = Boolean(ignoreBOM);
  }
  get encoding() { return this.#name; }
  get fatal() { return this.#fatal; }
  get ignoreBOM() { return this.#keepBOM; }
  decode(input, { stream = false } = {}) {
    if (input !== undefined && !isBytes(input)) {
      throw badType('The "input" argument must be an ArrayBuffer or a view of one');
    }
    let bytes = input === undefined ? this.#pending : bytesOf(input);
    if (input !== undefined && this.#pending.length) bytes = concat([this.#pending, bytes]);
    this.#pending = new Uint8Array(0);
    try {
      if (this.#name === "windows-1252") return decode1252(bytes);
      return this.#strip(this.#name === "utf-8" ? this.#utf8(bytes, stream) : this.#utf16(bytes, stream));
    } finally {
      if (!stream) this.#started = false;
    }
  }
  #utf8(bytes, stream) {
    const keep = stream ? openEnd(bytes) : 0;
    if (keep) {
      this.#pending = bytes.slice(bytes.length - keep);
      bytes = bytes.subarray(0, bytes.length - keep);
    }
    return utf8Decode(bytes, this.#fatal);
  }
  #utf16(bytes, stream) {
    const all = this.#name === "utf-16be" ? swap(bytes) : bytes;
    let text = utf16Decode(all);
    const odd = all.length & 1;
    const lead = /[\ud800-\udbff]$/.test(text);
    if (stream && (odd || lead)) {
      this.#pending = bytes.slice(bytes.length - odd - (lead ? 2 : 0));
      if (lead) text = text.slice(0, -1);
    } else if (odd && !lead) text += "\ud800";
    if (this.#fatal && !text.isWellFormed()) throw badEncoding(this.#name);
    return text.toWellFormed();
  }
  #strip(text) {
    if (this.#started || this.#keepBOM || text === "") return text;
    this.#started = true;
    return text[0] === "\ufeff" ? text.slice(1) : text;
  }
}

install({ TextEncoder: tagged("TextEncoder", TextEncoder), TextDecoder: tagged("TextDecoder", TextDecoder) });
