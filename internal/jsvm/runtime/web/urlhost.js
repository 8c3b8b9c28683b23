// URL hosts: domains, IPv4 and IPv6 addresses.
import { percentDecode, percentEncode, sets } from "./percent.js";

const forbiddenHost = /[\0\t\n\r #/:<>?@[\\\]^|]/;
const forbiddenDomain = /[\x00-\x20#%/:<>?@[\\\]^|\x7f]/;
const disallowed = /[\p{Cn}\p{Co}\p{Cs}\p{Cc}\p{Zl}\p{Zp}\ufffd\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u;
const ignored = /[\u00ad\u034f\u180b-\u180d\u180f\u200b\u2060\u2064\ufe00-\ufe0f\ufeff]/g;

/** parseHost returns the serialized host, or null if it is invalid. */
export function parseHost(text, special) {
  if (text.startsWith("[")) {
    const pieces = text.endsWith("]") ? parseIPv6(text.slice(1, -1)) : null;
    return pieces && `[${showIPv6(pieces)}]`;
  }
  if (!special) return forbiddenHost.test(text) ? null : percentEncode(text, sets.control);
  const domain = domainToASCII(percentDecode(text));
  if (domain === null || domain === "" || forbiddenDomain.test(domain)) return null;
  return endsInNumber(domain) ? parseIPv4(domain) : domain;
}

/** domainToASCII maps a domain to lower case and punycode. It returns null if the domain is invalid. */
export function domainToASCII(domain) {
  if (/^[\x00-\x7f]*$/.test(domain)) {
    const lower = domain.toLowerCase();
    return /(^|\.)xn--/.test(lower) && !lower.split(".").every(validACE) ? null : lower;
  }
  const mapped = [...domain.replace(ignored, "").normalize("NFKC")].map((c) => c.toLowerCase()).join("");
  const text = mapped.normalize("NFKC").replace(/\u3002/g, ".");
  const labels = text.split(".").map((label) => {
    if (/^[\x00-\x7f]*$/.test(label)) return validACE(label) ? label : null;
    if (/^\p{M}/u.test(label) || disallowed.test(label)) return null;
    if (label.startsWith("xn--")) return null;
    return "xn--" + punycode([...label].map((c) => c.codePointAt(0)));
  });
  return labels.includes(null) ? null : labels.join(".");
}

function validACE(label) {
  if (!label.startsWith("xn--")) return true;
  return /^xn--[a-z0-9-]*[a-z0-9]$/.test(label) && !/^xn--[a-z0-9]+-$/.test(label);
}

function adapt(delta, count, first) {
  delta = first ? Math.floor(delta / 700) : delta >> 1;
  delta += Math.floor(delta / count);
  let k = 0;
  for (; delta > 455; k += 36) delta = Math.floor(delta / 35);
  return k + Math.floor((36 * delta) / (delta + 38));
}

const digit = (n) => String.fromCharCode(n < 26 ? n + 97 : n + 22);

function variableLength(delta, bias) {
  let out = "";
  let q = delta;
  for (let k = 36; ; k += 36) {
    const t = Math.min(Math.max(k - bias, 1), 26);
    if (q < t) return out + digit(q);
    out += digit(t + ((q - t) % (36 - t)));
    q = Math.floor((q - t) / (36 - t));
  }
}

/** punycode encodes the code points of a label (RFC 3492). */
function punycode(points) {
  const basic = points.filter((p) => p < 128);
  let out = String.fromCharCode(...basic) + (basic.length ? "-" : "");
  let done = basic.length;
  let n = 128;
  let delta = 0;
  let bias = 72;
  while (done < points.length) {
    const next = Math.min(...points.filter((p) => p >= n));
    delta += (next - n) * (done + 1);
    n = next;
    for (const p of points) {
      if (p < n) delta++;
      if (p !== n) continue;
      out += variableLength(delta, bias);
      bias = adapt(delta, done + 1, done === basic.length);
      delta = 0;
      done++;
    }
    delta++;
    n++;
  }
  return out;
}

function endsInNumber(domain) {
  const parts = domain.split(".");
  if (parts.at(-1) === "" && parts.length > 1) parts.pop();
  return /^(\d+|0x[0-9a-f]*)$/i.test(parts.at(-1));
}

function parsePart(text) {
  if (text === "") return NaN;
  if (/^0x[0-9a-f]*$/i.test(text)) return text.length === 2 ? 0 : parseInt(text, 16);
  if (/^0[0-7]*$/.test(text)) return parseInt(text, 8);
  return /^[1-9]\d*$/.test(text) ? Number(text) : NaN;
}

function parseIPv4(domain) {
  const parts = domain.split(".");
  if (parts.at(-1) === "" && parts.length > 1) parts.pop();
  if (parts.length > 4) return null;
  const numbers = parts.map(parsePart);
  const last = numbers.pop();
  if (numbers.some((n) => !(n <= 255)) || !(last < 256 ** (4 - numbers.length))) return null;
  const value = numbers.reduce((sum, n, i) => sum + n * 256 ** (3 - i), last);
  return [24, 16, 8, 0].map((shift) => Math.floor(value / 2 ** shift) % 256).join(".");
}

function embeddedIPv4(text) {
  const parts = text.split(".");
  if (parts.length !== 4 || !parts.every((p) => /^(0|[1-9]\d{0,2})$/.test(p) && p <= 255)) return null;
  const [a, b, c, d] = parts.map(Number);
  return [a * 256 + b, c * 256 + d];
}

function parsePieces(text) {
  if (text === "") return [];
  const parts = text.split(":");
  const tail = parts.at(-1).includes(".") ? embeddedIPv4(parts.pop()) : [];
  if (!tail || !parts.every((p) => /^[0-9a-f]{1,4}$/i.test(p))) return null;
  return [...parts.map((p) => parseInt(p, 16)), ...tail];
}

function parseIPv6(text) {
  const halves = text.split("::");
  if (halves.length > 2 || (halves.length === 2 && halves[0].includes("."))) return null;
  const [head, tail] = halves.map(parsePieces);
  if (!head || tail === null) return null;
  if (tail === undefined) return head.length === 8 ? head : null;
  const missing = 8 - head.length - tail.length;
  return missing < 1 ? null : [...head, ...Array(missing).fill(0), ...tail];
}

function longestZeros(pieces) {
  let best = { at: -1, length: 1 };
  for (let at = 0; at < 8; at++) {
    let length = 0;
    while (pieces[at + length] === 0) length++;
    if (length > best.length) best = { at, length };
    at += length;
  }
  return best;
}

function showIPv6(pieces) {
  const hex = pieces.map((p) => p.toString(16));
  const { at, length } = longestZeros(pieces);
  if (at < 0) return hex.join(":");
  return `${hex.slice(0, at).join(":")}::${hex.slice(at + length).join(":")}`;
}
