// The smaller parts of Intl: lists, relative times, segments and names.

import { canonicalTag, choice, joinParts, lazy, optionsObject, resolveLocale, tag } from "./common.js";
import { currencyTitle, languages, regions, scripts } from "./names.js";
import { NumberFormat } from "./number.js";

const joints = {
  conjunction: { long: [" and ", ", and "], short: [" & ", ", & "], narrow: [", ", ", "] },
  disjunction: { long: [" or ", ", or "], short: [" or ", ", or "], narrow: [" or ", ", or "] },
  unit: { long: [", ", ", "], short: [", ", ", "], narrow: [" ", " "] },
};

export class ListFormat {
  #o;

  constructor(locales, options) {
    if (options !== undefined && (typeof options !== "object" || options === null)) {
      throw new TypeError("Incorrect ListFormat information provided");
    }
    const { locale } = resolveLocale(locales);
    const given = optionsObject(options);
    const type = choice("ListFormat", given, "type", Object.keys(joints), "conjunction");
    this.#o = { locale, type, style: choice("ListFormat", given, "style", ["long", "short", "narrow"], "long") };
  }

  format(list) {
    return joinParts(this.formatToParts(list));
  }

  formatToParts(list) {
    const items = list === undefined ? [] : [...list];
    for (const item of items) {
      if (typeof item !== "string") throw new TypeError(`Iterable yielded ${String(item)} which is not a string`);
    }
    const parts = [];
    items.forEach((value, i) => {
      if (i > 0) parts.push({ type: "literal", value: this.#joint(i, items.length) });
      parts.push({ type: "element", value });
    });
    return parts;
  }

  #joint(i, length) {
    const { locale, type, style } = this.#o;
    let [pair, end] = joints[type][style];
    if (locale === "en-GB" && type !== "unit" && end !== ", ") pair = end = type === "conjunction" ? " and " : " or ";
    if (i < length - 1) return type === "unit" && style === "narrow" ? " " : ", ";
    return length === 2 ? pair : end;
  }

  resolvedOptions() {
    return { ...this.#o };
  }
}

// unit: short form and narrow form.
const relative = {
  second: ["sec.", "s"],
  minute: ["min.", "m"],
  hour: ["hr.", "h"],
  day: ["day", "d"],
  week: ["wk.", "w"],
  month: ["mo.", "mo"],
  quarter: ["qtr.", "q"],
  year: ["yr.", "y"],
};

/** relativeWord returns the word for numeric: "auto", such as yesterday, if there is one. */
function relativeWord(value, unit, style) {
  if (unit === "day") return { "-1": "yesterday", 0: "today", 1: "tomorrow" }[value];
  if (unit === "second") return value === 0 ? "now" : undefined;
  if (unit === "minute" || unit === "hour") return value === 0 ? `this ${unit}` : undefined;
  const which = { "-1": "last", 0: "this", 1: "next" }[value];
  return which && `${which} ${style === "long" ? unit : relative[unit][0]}`;
}

function relativeUnit(unit, style, one) {
  if (style === "long" || (style === "short" && unit === "day")) return " " + unit + (one ? "" : "s");
  if (style === "narrow") return relative[unit][1];
  return unit === "quarter" && !one ? " qtrs." : " " + relative[unit][0];
}

export class RelativeTimeFormat {
  #o;
  #numbers;

  constructor(locales, options) {
    const { locale } = resolveLocale(locales);
    const given = optionsObject(options);
    const style = choice("RelativeTimeFormat", given, "style", ["long", "short", "narrow"], "long");
    const numeric = choice("RelativeTimeFormat", given, "numeric", ["always", "auto"], "always");
    this.#o = { locale, style, numeric, numberingSystem: "latn" };
    this.#numbers = new NumberFormat(locale);
  }

  format(value, unit) {
    return joinParts(this.#parts(value, unit, "format"));
  }

  formatToParts(value, unit) {
    return this.#parts(value, unit, "formatToParts");
  }

  #parts(value, unit, method) {
    const where = `Intl.RelativeTimeFormat.prototype.${method}()`;
    const number = Number(value);
    const name = String(unit).replace(/s$/, "");
    if (!Object.hasOwn(relative, name)) throw new RangeError(`Invalid unit argument for ${where} '${String(unit)}'`);
    if (!Number.isFinite(number)) throw new RangeError(`Value need to be finite number for ${where}`);
    const { style, numeric } = this.#o;
    const word = numeric === "auto" ? relativeWord(number, name, style) : undefined;
    if (word) return [{ type: "literal", value: word }];
    const past = number < 0 || Object.is(number, -0);
    const digits = this.#numbers.formatToParts(Math.abs(number));
    const text = relativeUnit(name, style, joinParts(digits) === "1");
    return [
      ...(past ? [] : [{ type: "literal", value: "in " }]),
      ...digits.map((part) => ({ ...part, unit: name })),
      { type: "literal", value: past ? `${text} ago` : text },
    ];
  }

  resolvedOptions() {
    return { ...this.#o };
  }
}

// A grapheme is a flag, an emoji sequence, or a letter with its marks. The expressions are created
// on first use, because their Unicode tables are large.
const mark = String.raw`[\p{M}\p{EMod}]*`;
const cjk = String.raw`[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Hang}ー]`;
const grapheme = lazy(() => new RegExp(
  String.raw`\r\n|\p{RI}\p{RI}|\p{Extended_Pictographic}${mark}(?:\u200d\p{Extended_Pictographic}${mark})*[\u200d\u{e0020}-\u{e007f}]*` +
    String.raw`|[\u1100-\u115f]+[\u1160-\u11a7]*[\u11a8-\u11ff]*` +
    String.raw`|\P{Cc}(?:[\p{M}\u200c\u200d\p{EMod}]|(?<=[\u094d\u09cd\u0acd\u0b4d\u0c4d\u0d4d])\p{L})*|[^]`, "uy"));
// A word is a run of letters and digits with inner punctuation, a run of Chinese, Japanese or
// Korean, or spaces.
const word = lazy(() => new RegExp(
  String.raw`${cjk}+|(?:(?!${cjk})(?:[\p{L}\p{M}\p{Nd}_]|(?<=[\p{L}\p{M}])['’.·](?=\p{L})|(?<=\p{Nd})[.,'’;](?=\p{Nd})))+` +
    String.raw`|[ \u2000-\u2006\u2008-\u200a\u3000]+`, "uy"));
const wordLike = lazy(() => new RegExp(String.raw`[\p{L}\p{N}]`, "u"));
const smallNext = lazy(() => new RegExp(String.raw`^[^\p{L}\n\r.!?…]*\p{Ll}`, "u"));

/** nextEnd returns the end of the segment that begins at start. */
function nextEnd(text, start, granularity) {
  if (granularity === "sentence") return sentenceEnd(text, start);
  if (granularity === "word") {
    const end = matchEnd(word(), text, start);
    if (end) return end;
  }
  return matchEnd(grapheme(), text, start) || start + 1;
}

function matchEnd(sticky, text, start) {
  sticky.lastIndex = start;
  return sticky.test(text) ? sticky.lastIndex : 0;
}

/** sentenceEnd returns the position after a full stop and closing marks, unless a lower-case letter follows. */
function sentenceEnd(text, start) {
  const stop = /\r\n|[\n\r\u2028\u2029]|([.!?…]+)["'”’)\]]*(?=\s|$)[^\S\n\r\u2028\u2029]*/gu;
  stop.lastIndex = start;
  for (let m = stop.exec(text); m; m = stop.exec(text)) {
    const end = stop.lastIndex;
    const rest = text.slice(end, end + 200);
    if (!m[1]) return end;
    const line = /^(?:\r\n|[\n\r\u2028\u2029])/.exec(rest);
    if (line) return end + line[0].length;
    const goesOn = /^[-,:;.!?…]/.test(rest) || (m[1].endsWith(".") && smallNext().test(rest));
    if (!goesOn) return end;
  }
  return text.length;
}

function segmentAt(input, start, granularity) {
  const end = Math.min(input.length, nextEnd(input, start, granularity));
  const segment = input.slice(start, end);
  const data = { segment, index: start, input };
  if (granularity === "word") data.isWordLike = wordLike().test(segment);
  return data;
}

class Segments {
  #text;
  #granularity;

  constructor(text, granularity) {
    this.#text = text;
    this.#granularity = granularity;
  }

  containing(index = 0) {
    const at = Math.trunc(Number(index)) || 0;
    if (at < 0 || at >= this.#text.length) return undefined;
    for (const data of this) if (at < data.index + data.segment.length) return data;
  }

  *[Symbol.iterator]() {
    for (let i = 0; i < this.#text.length; ) {
      const data = segmentAt(this.#text, i, this.#granularity);
      i += data.segment.length;
      yield data;
    }
  }
}

export class Segmenter {
  #o;

  constructor(locales, options) {
    const { locale } = resolveLocale(locales);
    const granularity = choice("Segmenter", optionsObject(options), "granularity", ["grapheme", "word", "sentence"], "grapheme");
    this.#o = { locale, granularity };
  }

  segment(text) {
    return new Segments(String(text), this.#o.granularity);
  }

  resolvedOptions() {
    return { ...this.#o };
  }
}

const codes = {
  region: /^(?:[a-z]{2}|\d{3})$/i,
  script: /^[a-z]{4}$/i,
  currency: /^[a-z]{3}$/i,
  language: /^[a-z]{2,8}(?:-[a-z\d]{2,8})*$/i,
  calendar: /^[a-z\d]{3,8}(?:-[a-z\d]{3,8})*$/i,
  dateTimeField: /^(?:era|year|quarter|month|weekOfYear|weekday|day|dayPeriod|hour|minute|second|timeZoneName)$/,
};
const fieldNames = { weekOfYear: "week", weekday: "day of the week", dayPeriod: "AM/PM", timeZoneName: "time zone" };

function languageName(code) {
  const known = languages().get(code);
  if (known) return known;
  const [language, ...rest] = code.split("-");
  const base = languages().get(language);
  if (!base || rest.length === 0) return base;
  return `${base} (${rest.map((r) => scripts().get(r) ?? regions().get(r) ?? r).join(", ")})`;
}

function displayName(type, code) {
  switch (type) {
    case "region": return regions().get(code.toUpperCase());
    case "script": return scripts().get(code[0].toUpperCase() + code.slice(1).toLowerCase());
    case "currency": return currencyTitle(code.toUpperCase());
    case "language": return languageName(canonicalTag(code));
    case "calendar": return code === "gregory" ? "Gregorian Calendar" : undefined;
    default: return fieldNames[code] ?? code;
  }
}

export class DisplayNames {
  #o;

  constructor(locales, options) {
    const { locale } = resolveLocale(locales);
    if (typeof options !== "object" || options === null) throw new TypeError("Cannot convert undefined or null to object");
    const style = choice("DisplayNames", options, "style", ["narrow", "short", "long"], "long");
    const type = choice("DisplayNames", options, "type", Object.keys(codes));
    if (type === undefined) throw new TypeError("Required option \"type\" must not be undefined");
    const fallback = choice("DisplayNames", options, "fallback", ["code", "none"], "code");
    this.#o = { locale, style, type, fallback };
    const languageDisplay = choice("DisplayNames", options, "languageDisplay", ["dialect", "standard"], "dialect");
    if (type === "language") this.#o.languageDisplay = languageDisplay;
  }

  of(code) {
    const { type, fallback } = this.#o;
    const text = String(code);
    if (!codes[type].test(text)) throw new RangeError("Invalid argument to Intl.DisplayNames.prototype.of");
    return displayName(type, text) ?? (fallback === "code" ? text : undefined);
  }

  resolvedOptions() {
    return { ...this.#o };
  }
}

tag(Segments.prototype, "%Segments%");
