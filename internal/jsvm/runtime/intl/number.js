// Intl.NumberFormat and Intl.PluralRules for English.

import { callable, choice, integer, joinParts, optionsObject, resolveLocale } from "./common.js";
import { currencyDigits, currencyName, currencySymbol, units } from "./names.js";

const roundingModes = [
  "ceil", "floor", "expand", "trunc", "halfCeil", "halfFloor", "halfExpand", "halfTrunc", "halfEven",
];
const roundingIncrements = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 2500, 5000];
const decimalText = /^([+-]?)(\d*)\.?(\d*)(?:e([+-]?\d{1,3}))?$/i;

// A decimal is either {negative, n, e}, which means n × 10^e with n a BigInt, or {negative,
// special} for NaN and ∞.

/** toDecimal converts a BigInt or string exactly, or a number to its shortest decimal. */
export function toDecimal(value) {
  if (typeof value === "object" && value !== null) value = primitive(value);
  if (typeof value === "bigint") return { negative: value < 0n, n: value < 0n ? -value : value, e: 0 };
  if (typeof value === "symbol") throw new TypeError("Cannot convert a Symbol value to a number");
  if (typeof value === "string") {
    const text = value.trim();
    const parsed = /\d/.test(text) && parseDecimal(text);
    if (parsed) return parsed;
  }
  const number = Number(value);
  if (Number.isNaN(number)) return { negative: false, special: "NaN", n: 0n, e: 0 };
  if (!Number.isFinite(number)) return { negative: number < 0, special: "∞", n: 0n, e: 0 };
  return { ...parseDecimal(String(Math.abs(number))), negative: number < 0 || Object.is(number, -0) };
}

function primitive(value) {
  const convert = value[Symbol.toPrimitive];
  if (convert) return convert.call(value, "number");
  const plain = value.valueOf();
  return typeof plain === "object" ? value.toString() : plain;
}

function parseDecimal(text) {
  const m = decimalText.exec(text);
  if (!m) return undefined;
  return { negative: m[1] === "-", n: BigInt(m[2] + m[3]), e: Number(m[4] ?? 0) - m[3].length };
}

/** magnitude returns the exponent of the leading digit, or 0 for zero. */
function magnitude(d) {
  return d.n === 0n ? 0 : String(d.n).length - 1 + d.e;
}

/** roundTo rounds d to a multiple of increment × 10^place. */
function roundTo(d, place, mode, increment = 1) {
  if (d.e >= place && increment === 1) return d;
  const scaled = d.e > place ? d.n * 10n ** BigInt(d.e - place) : d.n;
  const step = (d.e < place ? 10n ** BigInt(place - d.e) : 1n) * BigInt(increment);
  let quotient = scaled / step;
  const rest = scaled % step;
  if (rest !== 0n && roundsUp(mode, d.negative, rest * 2n, step, quotient)) quotient += 1n;
  return { negative: d.negative, n: quotient * BigInt(increment), e: place };
}

function roundsUp(mode, negative, twice, step, quotient) {
  switch (mode) {
    case "ceil": return !negative;
    case "floor": return negative;
    case "expand": return true;
    case "trunc": return false;
  }
  if (twice !== step) return twice > step;
  switch (mode) {
    case "halfCeil": return !negative;
    case "halfFloor": return negative;
    case "halfTrunc": return false;
    case "halfEven": return quotient % 2n === 1n;
    default: return true;
  }
}

/** roundDigits applies the digit options, and returns the minimum number of fraction digits. */
function roundDigits(d, o) {
  const zero = d.n === 0n;
  const fractionPlace = -(o.maximumFractionDigits ?? 0);
  const significantPlace = magnitude(d) - (o.maximumSignificantDigits ?? 1) + 1;
  let rounded;
  let minimum;
  if (o.roundingType === "fraction") {
    rounded = roundTo(d, fractionPlace, o.roundingMode, o.roundingIncrement);
    minimum = o.minimumFractionDigits;
  } else if (o.roundingType === "significant") {
    rounded = zero ? d : roundTo(d, significantPlace, o.roundingMode);
    minimum = o.minimumSignificantDigits - 1 - magnitude(rounded);
  } else {
    const more = o.roundingType === "morePrecision";
    const place = more ? Math.min(fractionPlace, significantPlace) : Math.max(fractionPlace, significantPlace);
    rounded = zero ? d : roundTo(d, place, o.roundingMode);
    const grown = rounded.n !== 0n && magnitude(rounded) !== magnitude(d) && fractionPlace === significantPlace;
    const bySignificant = significantPlace + (grown ? 1 : 0) <= fractionPlace === more;
    minimum = bySignificant ? o.minimumSignificantDigits - 1 - magnitude(rounded) : o.minimumFractionDigits;
  }
  return { rounded, minimum: Math.max(0, minimum) };
}

/** digitsOf returns the integer and fraction digits of a rounded decimal. */
function digitsOf(d, minimum, o) {
  let text = String(d.n);
  let fraction = "";
  if (d.e >= 0) text = d.n === 0n ? "0" : text + "0".repeat(d.e);
  else {
    text = text.padStart(1 - d.e, "0");
    fraction = text.slice(d.e).replace(/0+$/, "");
    text = text.slice(0, d.e);
  }
  if (!(o.trailingZeroDisplay === "stripIfInteger" && fraction === "")) fraction = fraction.padEnd(minimum, "0");
  return { integer: text.padStart(o.minimumIntegerDigits, "0"), fraction };
}

/** exponentFor returns the power of ten that a notation factors out of a number. */
function exponentFor(notation, m) {
  if (notation === "scientific") return m;
  if (notation === "engineering") return Math.floor(m / 3) * 3;
  if (notation === "compact") return Math.min(12, Math.max(0, Math.floor(m / 3) * 3));
  return 0;
}

/** shape rounds a decimal. It returns the digits, the exponent, whether it is zero and whether it is one. */
function shape(d, o) {
  let exponent = d.n === 0n ? 0 : exponentFor(o.notation, magnitude(d));
  let { rounded, minimum } = roundDigits({ ...d, e: d.e - exponent }, o);
  const next = rounded.n === 0n ? exponent : exponentFor(o.notation, magnitude(rounded) + exponent);
  if (next !== exponent) {
    ({ rounded, minimum } = roundDigits({ ...rounded, e: rounded.e + exponent - next }, o));
    exponent = next;
  }
  const digits = digitsOf(rounded, minimum, o);
  return { ...digits, exponent, zero: rounded.n === 0n, one: exponent === 0 && /^0*1$/.test(digits.integer) && digits.fraction === "" };
}

function signOf(negative, zero, nan, display) {
  switch (display) {
    case "never": return "";
    case "always": return negative ? "-" : "+";
    case "exceptZero": return zero || nan ? "" : negative ? "-" : "+";
    case "negative": return negative && !zero ? "-" : "";
    default: return negative ? "-" : "";
  }
}

function pushInteger(parts, text, grouping) {
  if (grouping === false || text.length < (grouping === "min2" ? 5 : 4)) {
    parts.push({ type: "integer", value: text });
    return;
  }
  for (let i = 0, end = text.length % 3 || 3; i < text.length; i = end, end += 3) {
    if (i > 0) parts.push({ type: "group", value: "," });
    parts.push({ type: "integer", value: text.slice(i, end) });
  }
}

const compactSigns = { 3: ["K", "thousand"], 6: ["M", "million"], 9: ["B", "billion"], 12: ["T", "trillion"] };

function pushExponent(parts, s, o) {
  if (o.notation === "compact") {
    if (s.exponent === 0) return;
    const long = o.compactDisplay === "long" && (o.style !== "currency" || o.currencyDisplay === "name");
    if (long) parts.push({ type: "literal", value: " " });
    parts.push({ type: "compact", value: compactSigns[s.exponent][long ? 1 : 0] });
  } else if (o.notation !== "standard") {
    parts.push({ type: "exponentSeparator", value: "E" });
    if (s.exponent < 0) parts.push({ type: "exponentMinusSign", value: "-" });
    parts.push({ type: "exponentInteger", value: String(Math.abs(s.exponent)) });
  }
}

/** numberParts returns a number's parts, except for the sign and the unit. */
function numberParts(d, s, o) {
  if (d.special) return [{ type: d.special === "NaN" ? "nan" : "infinity", value: d.special }];
  const parts = [];
  pushInteger(parts, s.integer, o.notation === "compact" && o.useGrouping === "auto" ? "min2" : o.useGrouping);
  if (s.fraction) parts.push({ type: "decimal", value: "." }, { type: "fraction", value: s.fraction });
  pushExponent(parts, s, o);
  return parts;
}

/** symbolNeedsSpace reports whether a space follows a symbol, which is the case after a letter or a dot. */
function symbolNeedsSpace(symbol) {
  return /[A-Za-z.]$/.test(symbol) || (/[^\x00-\x7f]$/.test(symbol) && new RegExp("[^\\p{S}\\p{Z}]$", "u").test(symbol));
}

/** withCurrency adds a currency's symbol, code or name. */
function withCurrency(parts, one, o) {
  if (o.currencyDisplay === "name") {
    return [...parts, { type: "literal", value: " " }, { type: "currency", value: currencyName(o.currency, one) }];
  }
  const value = o.currencyDisplay === "code" ? o.currency : currencySymbol(o.currency, o.currencyDisplay === "narrowSymbol");
  const spaced = symbolNeedsSpace(value) && parts[0].type === "integer";
  const space = spaced ? [{ type: "literal", value: "\u00a0" }] : [];
  return [{ type: "currency", value }, ...space, ...parts];
}

function withUnit(parts, one, o) {
  const { space, text } = units.name(o.unit, o.unitDisplay, one);
  return space
    ? [...parts, { type: "literal", value: " " }, { type: "unit", value: text }]
    : [...parts, { type: "unit", value: text }];
}

/** formatDecimal returns all parts of a number. */
export function formatDecimal(d, o) {
  if (o.style === "percent") d = { ...d, e: d.e + 2 };
  const s = d.special ? { zero: false, one: false } : shape(d, o);
  let parts = numberParts(d, s, o);
  if (o.style === "currency") parts = withCurrency(parts, s.one, o);
  if (o.style === "unit") parts = withUnit(parts, s.one, o);
  if (o.style === "percent") parts.push({ type: o.notation === "compact" ? "unit" : "percentSign", value: "%" });
  const sign = signOf(d.negative, s.zero, d.special === "NaN", o.signDisplay);
  const compacted = o.notation === "compact" && s.exponent > 0;
  if (sign === "-" && o.currencySign === "accounting" && o.currencyDisplay !== "name" && !compacted) {
    return [{ type: "literal", value: "(" }, ...parts, { type: "literal", value: ")" }];
  }
  if (sign) parts.unshift({ type: sign === "-" ? "minusSign" : "plusSign", value: sign });
  return parts;
}

/** readDigits reads the digit options of NumberFormat and PluralRules into o. */
export function readDigits(name, options, o, minDefault, maxDefault) {
  o.minimumIntegerDigits = integer(options, "minimumIntegerDigits", 1, 21, 1);
  let { minimumFractionDigits: minF, maximumFractionDigits: maxF } = options;
  const { minimumSignificantDigits: minS, maximumSignificantDigits: maxS } = options;
  o.roundingPriority = choice(name, options, "roundingPriority", ["auto", "morePrecision", "lessPrecision"], "auto");
  o.roundingIncrement = integer(options, "roundingIncrement", 1, 5000, 1);
  if (!roundingIncrements.includes(o.roundingIncrement)) throw new RangeError("roundingIncrement value is out of range.");
  o.roundingMode = choice(name, options, "roundingMode", roundingModes, "halfExpand");
  o.trailingZeroDisplay = choice(name, options, "trailingZeroDisplay", ["auto", "stripIfInteger"], "auto");
  if (o.roundingIncrement !== 1) maxDefault = minDefault;
  const significant = minS !== undefined || maxS !== undefined;
  const fraction = minF !== undefined || maxF !== undefined;
  const auto = o.roundingPriority === "auto";
  const needSignificant = !auto || significant;
  const needFraction = !auto || !(significant || (!fraction && o.notation === "compact"));
  if (needSignificant) {
    o.minimumSignificantDigits = integer(options, "minimumSignificantDigits", 1, 21, 1);
    o.maximumSignificantDigits = integer(options, "maximumSignificantDigits", o.minimumSignificantDigits, 21, 21);
  }
  if (needFraction) {
    minF = integer(options, "minimumFractionDigits", 0, 20);
    maxF = integer(options, "maximumFractionDigits", 0, 20);
    if (minF === undefined) minF = Math.min(minDefault, maxF ?? minDefault);
    else if (maxF === undefined) maxF = Math.max(maxDefault, minF);
    else if (minF > maxF) throw new RangeError("maximumFractionDigits value is out of range.");
    o.minimumFractionDigits = minF;
    o.maximumFractionDigits = maxF ?? Math.max(maxDefault, minF);
  }
  if (!needSignificant && !needFraction) {
    Object.assign(o, {
      minimumFractionDigits: 0, maximumFractionDigits: 0, minimumSignificantDigits: 1, maximumSignificantDigits: 2,
      roundingPriority: "morePrecision",
    });
  }
  if (o.roundingPriority !== "auto") o.roundingType = o.roundingPriority;
  else o.roundingType = significant ? "significant" : "fraction";
  if (o.roundingIncrement !== 1) {
    if (o.roundingType !== "fraction") throw new TypeError("RoundingType is not fractionDigits");
    if (o.minimumFractionDigits !== o.maximumFractionDigits) {
      throw new RangeError("maximumFractionDigits not equal to minimumFractionDigits");
    }
  }
}

function readStyle(options, o) {
  const name = "NumberFormat";
  o.style = choice(name, options, "style", ["decimal", "percent", "currency", "unit"], "decimal");
  const currency = choice(name, options, "currency");
  if (currency !== undefined && !/^[a-z]{3}$/i.test(currency)) throw new RangeError(`Invalid currency code : ${currency}`);
  if (o.style === "currency" && currency === undefined) throw new TypeError("Currency code is required with currency style.");
  const display = choice(name, options, "currencyDisplay", ["code", "symbol", "name", "narrowSymbol"], "symbol");
  const sign = choice(name, options, "currencySign", ["standard", "accounting"], "standard");
  const unit = choice(name, options, "unit");
  const badUnit = `Invalid unit argument for Intl.NumberFormat() '${unit ?? ""}'`;
  if (unit !== undefined && !units.known(unit)) throw new RangeError(badUnit);
  if (o.style === "unit" && unit === undefined) throw new TypeError(badUnit);
  const unitDisplay = choice(name, options, "unitDisplay", ["short", "narrow", "long"], "short");
  if (o.style === "currency") Object.assign(o, { currency: currency.toUpperCase(), currencyDisplay: display, currencySign: sign });
  if (o.style === "unit") Object.assign(o, { unit, unitDisplay });
}

function readGrouping(options, notation) {
  const fallback = notation === "compact" ? "min2" : "auto";
  const value = options.useGrouping;
  if (value === undefined) return fallback;
  if (value === true) return "always";
  if (!value) return false;
  const text = String(value);
  if (text === "true" || text === "false") return fallback;
  return choice("NumberFormat", options, "useGrouping", ["min2", "auto", "always"]);
}

function readNumberOptions(options) {
  const o = {};
  readStyle(options, o);
  o.notation = choice("NumberFormat", options, "notation", ["standard", "scientific", "engineering", "compact"], "standard");
  const digits = o.style === "currency" ? currencyDigits(o.currency) : 0;
  const most = o.style === "decimal" || o.style === "unit" ? 3 : digits;
  readDigits("NumberFormat", options, o, digits, most);
  const compactDisplay = choice("NumberFormat", options, "compactDisplay", ["short", "long"], "short");
  if (o.notation === "compact") o.compactDisplay = compactDisplay;
  o.useGrouping = readGrouping(options, o.notation);
  o.signDisplay = choice("NumberFormat", options, "signDisplay", ["auto", "never", "always", "exceptZero", "negative"], "auto");
  return o;
}

const resolvedOrder = [
  "style", "currency", "currencyDisplay", "currencySign", "unit", "unitDisplay", "minimumIntegerDigits",
  "minimumSignificantDigits", "maximumSignificantDigits", "minimumFractionDigits", "maximumFractionDigits",
  "useGrouping", "notation", "compactDisplay", "signDisplay", "roundingMode", "roundingIncrement",
  "trailingZeroDisplay", "roundingPriority",
];

/** markSource sets the source of parts: the start or end of a range, or both. */
export function markSource(parts, source) {
  return parts.map((part) => ({ ...part, source }));
}

class NumberFormatClass {
  #locale;
  #o;
  #format;

  constructor(locales, options) {
    this.#locale = resolveLocale(locales).locale;
    this.#o = readNumberOptions(optionsObject(options));
  }

  get format() {
    return (this.#format ??= (value) => joinParts(formatDecimal(toDecimal(value), this.#o)));
  }

  formatToParts(value) {
    return formatDecimal(toDecimal(value), this.#o);
  }

  formatRange(start, end) {
    return joinParts(this.formatRangeToParts(start, end));
  }

  formatRangeToParts(start, end) {
    if (start === undefined || end === undefined) throw new TypeError("start or end is undefined");
    const [from, to] = [toDecimal(start), toDecimal(end)];
    if (from.special === "NaN" || to.special === "NaN") throw new RangeError("Invalid number value");
    return rangeParts(formatDecimal(from, this.#o), formatDecimal(to, this.#o));
  }

  resolvedOptions() {
    const resolved = { locale: this.#locale, numberingSystem: "latn" };
    for (const key of resolvedOrder) if (this.#o[key] !== undefined) resolved[key] = this.#o[key];
    return resolved;
  }
}

const numberTypes = /^(?:integer|group|decimal|fraction|exponent\w+|nan|infinity)$/;

/** dissect separates the number, its sign and symbol (inner), and its unit name (outer). */
function dissect(parts) {
  const head = parts.findIndex((p) => numberTypes.test(p.type));
  const tail = parts.findLastIndex((p) => numberTypes.test(p.type)) + 1;
  const named = parts.findIndex((p, i) => i >= tail && (p.type === "unit" || p.type === "currency"));
  const outer = named < 0 ? parts.length : named - (parts[named - 1].type === "literal" ? 1 : 0);
  return { prefix: parts.slice(0, head), number: parts.slice(head, tail), suffix: parts.slice(tail, outer), name: parts.slice(outer) };
}

/** rangeParts joins two numbers; common units, and common signs and symbols of several characters, appear once. */
function rangeParts(a, b) {
  if (joinParts(a) === joinParts(b)) return markSource([{ type: "approximatelySign", value: "~" }, ...a], "shared");
  const [x, y] = [dissect(a), dissect(b)];
  const inner = (d) => joinParts(d.prefix) + "\n" + joinParts(d.suffix);
  const once = joinParts(x.name) === joinParts(y.name);
  const onceInner = once && inner(x) === inner(y) && [...inner(x)].length > 2;
  const wide = !once || (!onceInner && inner(x) + inner(y) !== "\n\n") || x.number.some((p) => p.type === "exponentInteger");
  const ends = (d) => [...(onceInner ? [] : d.prefix), ...d.number, ...(onceInner ? [] : d.suffix), ...(once ? [] : d.name)];
  return [
    ...markSource(onceInner ? x.prefix : [], "shared"),
    ...markSource(ends(x), "startRange"),
    { type: "literal", value: wide ? " – " : "–", source: "shared" },
    ...markSource(ends(y), "endRange"),
    ...markSource([...(onceInner ? y.suffix : []), ...(once ? y.name : [])], "shared"),
  ];
}

export const NumberFormat = callable(
  Object.defineProperty(NumberFormatClass, "name", { value: "NumberFormat", configurable: true }),
);

/** pluralCategory returns one or other; for ordinals, also two (2nd) and few (3rd). */
function pluralCategory(type, s) {
  if (type === "cardinal") return s.one ? "one" : "other";
  if (/[1-9]/.test(s.fraction)) return "other";
  const last = s.integer.slice(-2).padStart(2, "0");
  if (last[0] === "1") return "other";
  return { 1: "one", 2: "two", 3: "few" }[last[1]] ?? "other";
}

export class PluralRules {
  #locale;
  #o;

  constructor(locales, options) {
    this.#locale = resolveLocale(locales).locale;
    const given = optionsObject(options);
    this.#o = { type: choice("PluralRules", given, "type", ["cardinal", "ordinal"], "cardinal"), notation: "standard" };
    readDigits("PluralRules", given, this.#o, 0, 3);
  }

  select(value) {
    const d = toDecimal(Number(value));
    return d.special ? "other" : pluralCategory(this.#o.type, shape(d, this.#o));
  }

  selectRange(start, end) {
    if (start === undefined || end === undefined) throw new TypeError("start or end is undefined");
    if (Number.isNaN(Number(start)) || Number.isNaN(Number(end))) throw new RangeError("Invalid number value");
    return this.#o.type === "ordinal" ? this.select(end) : "other";
  }

  resolvedOptions() {
    const resolved = { locale: this.#locale, type: this.#o.type };
    for (const key of resolvedOrder.slice(6, 11)) if (this.#o[key] !== undefined) resolved[key] = this.#o[key];
    resolved.pluralCategories = this.#o.type === "ordinal" ? ["few", "one", "two", "other"] : ["one", "other"];
    return resolved;
  }
}
