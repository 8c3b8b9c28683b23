// Shared parts of Intl: locales, options and class setup.

const wellFormed =
  /^(?:[a-z]{2,3}|[a-z]{5,8})(?:-[a-z]{4})?(?:-(?:[a-z]{2}|\d{3}))?(?:-(?:[a-z\d]{5,8}|\d[a-z\d]{3}))*(?:-[a-wy-z\d](?:-[a-z\d]{2,8})+)*(?:-x(?:-[a-z\d]{1,8})+)?$/i;

/** canonicalTag canonicalizes a language tag: en-Latn-US-u-hc-h23. */
export function canonicalTag(tag) {
  if (!wellFormed.test(tag)) throw new RangeError("Incorrect locale information provided");
  let extension = false;
  return tag
    .toLowerCase()
    .split("-")
    .map((part, i) => {
      if (part.length === 1) extension = true;
      if (i === 0 || extension) return part;
      if (part.length === 2) return part.toUpperCase();
      return /^[a-z]{4}$/.test(part) ? part[0].toUpperCase() + part.slice(1) : part;
    })
    .join("-");
}

/** canonicalLocales returns the list of tags in a locales argument. */
export function canonicalLocales(locales) {
  if (locales === undefined) return [];
  if (locales === null) throw new TypeError("Cannot convert undefined or null to object");
  const list = typeof locales === "string" ? [locales] : Array.from(Object(locales));
  const tags = list.map((item) => {
    if (typeof item !== "string" && (typeof item !== "object" || item === null)) {
      throw new TypeError("Language ID should be string or object.");
    }
    return canonicalTag(String(item));
  });
  return [...new Set(tags)];
}

/** resolveLocale returns en-US for everything except British English; keyword(key) reads the -u- extension. */
export function resolveLocale(locales) {
  const tag = canonicalLocales(locales)[0] ?? "en-US";
  return {
    locale: /^en-GB\b/.test(tag) ? "en-GB" : "en-US",
    keyword: (key) => keywordOf(tag, key),
  };
}

/** keywordOf returns a key's value in a tag's -u- extension, or "true" if it has no value. */
function keywordOf(tag, key) {
  const extension = /-u(-.*?)(?=-[a-tv-z\d](?:-|$)|$)/.exec(tag)?.[1];
  const found = extension && new RegExp(`-${key}((?:-[a-z\\d]{3,8})*)(?=-|$)`).exec(extension);
  return found ? found[1].slice(1) || "true" : undefined;
}

/** optionsObject checks the options of constructors that require an object or undefined. */
export function optionsObject(options) {
  if (options === undefined) return Object.create(null);
  if (options === null) throw new TypeError("Cannot convert undefined or null to object");
  return Object(options);
}

/** choice reads an enum option. */
export function choice(service, options, name, values, fallback) {
  const value = options[name];
  if (value === undefined) return fallback;
  const text = String(value);
  if (values && !values.includes(text)) {
    throw new RangeError(`Value ${text} out of range for Intl.${service} options property ${name}`);
  }
  return text;
}

/** flag reads a boolean option. */
export function flag(options, name, fallback) {
  const value = options[name];
  return value === undefined ? fallback : Boolean(value);
}

/** integer reads an integer option in a range. */
export function integer(options, name, min, max, fallback) {
  const value = options[name];
  if (value === undefined) return fallback;
  const number = Number(value);
  if (!(number >= min && number <= max)) throw new RangeError(`${name} value is out of range.`);
  return Math.floor(number);
}

/** joinParts returns the text of formatted parts. */
export function joinParts(parts) {
  let text = "";
  for (const part of parts) text += part.value;
  return text;
}

/** service adds a class to Intl, with its tag and supportedLocalesOf. */
export function service(intl, constructor) {
  const { name } = constructor;
  tag(constructor.prototype, `Intl.${name}`);
  hide(constructor, "supportedLocalesOf", function supportedLocalesOf(locales) {
    return canonicalLocales(locales).filter((l) => /^en\b/.test(l));
  });
  hide(intl, name, constructor);
}

/** callable makes a class callable without new, as DateTimeFormat, NumberFormat and Collator are. */
export function callable(constructor) {
  const name = constructor.name;
  const f = { [name]: function (...args) { return Reflect.construct(constructor, args, new.target ?? f); } }[name];
  Object.defineProperty(f, "length", { value: 0, configurable: true });
  Object.defineProperty(f, "prototype", { value: constructor.prototype, writable: false });
  hide(constructor.prototype, "constructor", f);
  return f;
}

export function tag(object, value) {
  Object.defineProperty(object, Symbol.toStringTag, { value, configurable: true });
}

/** hide defines a non-enumerable property. */
export function hide(object, name, value) {
  Object.defineProperty(object, name, { value, writable: true, enumerable: false, configurable: true });
}

/** lazy creates a value on first use. */
export function lazy(make) {
  let value;
  return () => (value ??= make());
}

/** table parses "key=value;key=value". */
export function table(text) {
  return lazy(() => new Map(text.split(";").map((entry) => entry.split("="))));
}
