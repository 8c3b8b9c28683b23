// Intl.Collator: the order of the root collation, exact for ASCII and close for Latin letters.

import { callable, choice, flag, lazy, optionsObject, resolveLocale } from "./common.js";

const spaces = "\t\n\v\f\r\u0085\u2028\u2029 \u00a0\u2002\u2003\u2009\u202f";
const punctuation = "_‿-‐‑–—,;:!¡?¿.…·'‘’\"“”«»()[]{}§¶@*/\\&#%†‡•";
const signs = "`´^¯¨¸°©®+±÷×<=>¬|¦~→¤¢$£¥€";

// Letters that sort like other letters with an accent.
const variants = lazy(() => new Map(Object.entries({
  æ: "ae", œ: "oe", ß: "ss", ø: "o", đ: "d", ł: "l", ħ: "h", ŧ: "t", ſ: "s", ĳ: "ij", ﬁ: "fi", ﬂ: "fl",
  ª: "a", º: "o", "¹": "1", "²": "2", "³": "3",
})));

// Accents in collation order, followed by the stroke of ø; all others follow by code point.
const accents = "\u0301\u0300\u0306\u0302\u030c\u030a\u0308\u030b\u0303\u0307\u0338\u0327\u0328\u0304";

const firstDigit = 0x200;
const firstLetter = 0x220;

/** order lists spaces, punctuation and symbols in collation order. */
const order = lazy(() => new Map([...(spaces + punctuation + signs)].map((c, i) => [c, i + 1])));

/** rank returns the primary weight of a lower-case character with no accents, or 0 if it is ignored. */
function rank(char) {
  const code = char.codePointAt(0);
  if (char >= "0" && char <= "9") return firstDigit + code - 48;
  if (char >= "a" && char <= "z") return firstLetter + code - 97;
  const known = order().get(char);
  if (known !== undefined) return known;
  if (code < 32 || (code >= 127 && code < 160) || code === 0xad || (code >= 0x200b && code <= 0x200f)) return 0;
  if (is("Nd", char)) return firstDigit + digitValue(code);
  if (is("P", char) || is("S", char)) return 0x100 + (code & 0xff);
  return firstLetter + code;
}

const classes = {};

/** is reports whether a character belongs to a Unicode class. */
function is(name, char) {
  classes[name] ??= new RegExp(`\\p{${name}}`, "u");
  return classes[name].test(char);
}

/** digitValue returns a digit's value. In every script, the digits are consecutive code points. */
function digitValue(code) {
  let value = 0;
  while (value < 9 && is("Nd", String.fromCodePoint(code - value - 1))) value++;
  return value;
}

const ranks = new Map();

/** rankOf is like rank, with a cache. */
function rankOf(char) {
  let weight = ranks.get(char);
  if (weight === undefined) ranks.set(char, (weight = rank(char)));
  return weight;
}

/** unit encodes a weight as text. Large weights take two characters. */
function unit(weight) {
  return weight < 0x8000 ? String.fromCharCode(weight) : String.fromCharCode(0x8000 + (weight >> 14), weight & 0x3fff);
}

/** makeKey creates a text's sort key. */
function makeKey(text, o) {
  const key = { first: "", second: "", third: "" };
  const chars = [...text.normalize("NFD")];
  for (let i = 0; i < chars.length; i++) {
    if (o.numeric && chars[i] >= "0" && chars[i] <= "9") i = pushNumber(key, chars, i);
    else pushChar(key, chars[i], o);
  }
  return key.first + (o.accented ? "\0" + key.second : "") + (o.cased ? "\0" + key.third : "");
}

/** pushNumber adds a run of digits as one number: its length, then its digits. */
function pushNumber(key, chars, i) {
  let digits = "";
  while (i < chars.length && chars[i] >= "0" && chars[i] <= "9") digits += chars[i++];
  digits = digits.replace(/^0+(?=.)/, "");
  key.first += unit(firstDigit) + unit(0x8000 + digits.length) + digits;
  key.second += "\x01";
  key.third += "\x01";
  return i - 1;
}

function pushChar(key, char, o) {
  const code = char.codePointAt(0);
  if (code >= 0x300 && is("M", char)) {
    key.second += unit((accents.indexOf(char) + 1 || code) + 1);
    return;
  }
  const lower = char.toLowerCase();
  const variant = code > 127 ? variants().get(lower) : undefined;
  const third = (lower === char) === (o.caseFirst !== "upper") || !isCased(char, lower) ? "\x01" : "\x02";
  for (const base of variant ?? lower) {
    const weight = rankOf(base);
    if (weight === 0 || (o.ignorePunctuation && weight <= spaces.length + punctuation.length)) continue;
    key.first += unit(weight);
    key.second += variant ? "\x01" + unit(accents.indexOf("\u0338") + 2) : "\x01";
    key.third += third;
  }
}

const isCased = (char, lower) => lower !== char || char.toUpperCase() !== char;

/** keyOf is like makeKey, with a cache for short texts, because sorting needs keys repeatedly. */
function keyOf(text, o) {
  if (text.length > 200) return makeKey(text, o);
  let key = o.keys.get(text);
  if (key === undefined) {
    if (o.keys.size >= 10000) o.keys.clear();
    o.keys.set(text, (key = makeKey(text, o)));
  }
  return key;
}

/** compareTexts compares two texts according to a Collator's options. */
export function compareTexts(a, b, o) {
  if (a === b) return 0;
  const [x, y] = [keyOf(a, o), keyOf(b, o)];
  return x < y ? -1 : x > y ? 1 : 0;
}

/** collation reads a Collator's options. */
export function collation(locales, options) {
  const given = optionsObject(options);
  const { locale, keyword } = resolveLocale(locales);
  const name = "Collator";
  const usage = choice(name, given, "usage", ["sort", "search"], "sort");
  const numeric = flag(given, "numeric", keyword("kn") === "true");
  const caseFirst = choice(name, given, "caseFirst", ["upper", "lower", "false"], keyword("kf") ?? "false");
  const sensitivity = choice(name, given, "sensitivity", ["base", "accent", "case", "variant"], "variant");
  const ignorePunctuation = flag(given, "ignorePunctuation", false);
  return {
    resolved: { locale, usage, sensitivity, ignorePunctuation, collation: "default", numeric, caseFirst },
    numeric, caseFirst, ignorePunctuation,
    keys: new Map(),
    accented: sensitivity === "accent" || sensitivity === "variant",
    cased: sensitivity === "case" || sensitivity === "variant",
  };
}

class CollatorClass {
  #o;
  #compare;

  constructor(locales, options) {
    this.#o = collation(locales, options);
  }

  get compare() {
    return (this.#compare ??= (a, b) => compareTexts(String(a), String(b), this.#o));
  }

  resolvedOptions() {
    return { ...this.#o.resolved };
  }
}

export const Collator = callable(Object.defineProperty(CollatorClass, "name", { value: "Collator", configurable: true }));
