// Intl for English, which the engine lacks, and the built-in methods that depend on it.
//
// Every well-formed locale is accepted and treated as en-US; en-GB has its own dates and lists.

import { canonicalLocales, hide, service, tag } from "./intl/common.js";
import { Collator, collation, compareTexts } from "./intl/collator.js";
import { DateTimeFormat, Formatter } from "./intl/date.js";
import { currencyCodes, units } from "./intl/names.js";
import { NumberFormat, PluralRules } from "./intl/number.js";
import { DisplayNames, ListFormat, RelativeTimeFormat, Segmenter } from "./intl/text.js";
import { commonZones } from "./intl/zones.js";

const values = {
  calendar: () => ["gregory"],
  collation: () => ["default"],
  currency: currencyCodes,
  numberingSystem: () => ["latn"],
  timeZone: commonZones,
  unit: () => units.all(),
};

const Intl = {};
tag(Intl, "Intl");
hide(Intl, "getCanonicalLocales", function getCanonicalLocales(locales) {
  return canonicalLocales(locales);
});
hide(Intl, "supportedValuesOf", function supportedValuesOf(key) {
  if (!Object.hasOwn(values, key)) throw new RangeError(`Invalid key : ${key}`);
  return values[key]();
});
for (const constructor of [
  DateTimeFormat, NumberFormat, Collator, PluralRules, RelativeTimeFormat, ListFormat, DisplayNames, Segmenter,
]) {
  service(Intl, constructor);
}
hide(globalThis, "Intl", Intl);

/** cached caches instances that have no options, which are common and expensive to create. */
function cached(make) {
  let plain;
  return (locales, options) => {
    if (locales !== undefined && locales !== "en-US") return make(locales, options);
    return options === undefined ? (plain ??= make()) : make(locales, options);
  };
}

/** method replaces a method in a built-in prototype. */
function method(prototype, name, length, f) {
  Object.defineProperty(f, "name", { value: name, configurable: true });
  Object.defineProperty(f, "length", { value: length, configurable: true });
  hide(prototype, name, f);
}

const { getTime } = Date.prototype;

function dateMethod(name, required, defaults) {
  const formatter = cached((locales, options) => new Formatter(locales, options, required, defaults));
  method(Date.prototype, name, 0, {
    f(locales, options) {
      const ms = getTime.call(this);
      return Number.isNaN(ms) ? "Invalid Date" : formatter(locales, options).format(ms);
    },
  }.f);
}

dateMethod("toLocaleString", "any", "all");
dateMethod("toLocaleDateString", "date", "date");
dateMethod("toLocaleTimeString", "time", "time");

const numberFormat = cached((locales, options) => new NumberFormat(locales, options));

for (const prototype of [Number.prototype, BigInt.prototype]) {
  const { valueOf } = prototype;
  method(prototype, "toLocaleString", 0, {
    f(locales, options) {
      return numberFormat(locales, options).format(valueOf.call(this));
    },
  }.f);
}

method(Array.prototype, "toLocaleString", 0, {
  f(locales, options) {
    const texts = [];
    for (let i = 0; i < this.length; i++) texts.push(this[i] == null ? "" : String(this[i].toLocaleString(locales, options)));
    return texts.join(",");
  },
}.f);

const collationOf = cached(collation);

method(String.prototype, "localeCompare", 1, {
  f(that, locales, options) {
    if (this == null) throw new TypeError("String.prototype.localeCompare called on null or undefined");
    return compareTexts(String(this), String(that), collationOf(locales, options));
  },
}.f);
