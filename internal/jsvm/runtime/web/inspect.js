// util.inspect. It never throws or runs a getter, and its output is limited.
import { custom } from "./base.js";

const { getOwnPropertyDescriptor: descriptorOf, getPrototypeOf, ownKeys } = Reflect;
const stackOf = Object.getOwnPropertyDescriptor(Error.prototype, "stack")?.get;
const sizeOf = Object.getOwnPropertyDescriptor(Map.prototype, "size").get;
const countOf = Object.getOwnPropertyDescriptor(Set.prototype, "size").get;
const TypedArray = getPrototypeOf(Uint8Array);
const identifier = /^[A-Za-z_]\w*$/; // Node quotes names that contain a dollar sign
const escapes = { "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f", "\\": "\\\\" };
const defaults = { depth: 2, maxArrayLength: 100, maxStringLength: 10000, breakLength: 80, compact: 3 };
const maxTotal = 100000;
const maxNesting = 10;
let nesting = 0;

function quote(text) {
  let mark = "'";
  if (text.includes("'")) mark = !text.includes('"') ? '"' : !text.includes("`") && !text.includes("${") ? "`" : "'";
  const unsafe = /[\x00-\x1f\x7f-\x9f\\'"`]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
  const body = text.replace(unsafe, (c) => {
    if (c === "'" || c === '"' || c === "`") return c === mark ? "\\" + c : c;
    const code = c.charCodeAt(0);
    if (code >= 0xd800) return "\\u" + code.toString(16);
    return escapes[c] ?? "\\x" + code.toString(16).toUpperCase().padStart(2, "0");
  });
  return mark + body + mark;
}

/** showLines splits a long text at its line breaks. */
function showLines(text, ctx) {
  const isLong = ctx.compact !== true && text.length > 16 && text.length > ctx.breakLength - ctx.indent - 4;
  if (!isLong) return quote(text);
  return text.split(/(?<=\n)/).map(quote).join(` +\n${" ".repeat(ctx.indent + 2)}`);
}

function showString(text, ctx) {
  const more = Math.max(0, text.length - ctx.maxStringLength);
  const tail = more > 0 ? `... ${more} more character${more > 1 ? "s" : ""}` : "";
  return showLines(more > 0 ? text.slice(0, ctx.maxStringLength) : text, ctx) + tail;
}

function showPrimitive(value, ctx) {
  if (typeof value === "string") return showString(value, ctx);
  if (typeof value === "bigint") return `${value}n`;
  return Object.is(value, -0) ? "-0" : String(value);
}

/** fieldOf reads a data property of an object or its prototypes. It does not run getters. */
function fieldOf(object, key) {
  for (let o = object, n = 0; o !== null && n < 100; o = getPrototypeOf(o), n++) {
    const d = descriptorOf(o, key);
    if (d) return d.value;
  }
}

function className(object) {
  for (let o = object, n = 0; o !== null && n < 100; o = getPrototypeOf(o), n++) {
    const c = descriptorOf(o, "constructor")?.value;
    const name = typeof c === "function" ? descriptorOf(c, "name")?.value : "";
    if (typeof name === "string" && name !== "") return name;
  }
  return null;
}

function prefixOf(value, fallback, size) {
  const name = className(value);
  const tag = fieldOf(value, Symbol.toStringTag);
  let text = name ?? `[${fallback}: null prototype]`;
  if (size !== undefined) text += `(${size})`;
  if (typeof tag === "string" && tag !== "" && tag !== name) text += ` [${tag}]`;
  return text;
}

function showFunction(f) {
  const name = descriptorOf(f, "name")?.value;
  const label = typeof name === "string" && name !== "" ? name : "";
  if (descriptorOf(f, "prototype")?.writable === false && /^class\b/.test(Function.prototype.toString.call(f))) {
    const parent = getPrototypeOf(f);
    const of = typeof parent === "function" ? descriptorOf(parent, "name")?.value : "";
    return `[class ${label || "(anonymous)"}${of ? ` extends ${of}` : ""}]`;
  }
  const kind = fieldOf(f, Symbol.toStringTag) ?? "Function";
  return label ? `[${kind}: ${label}]` : `[${kind} (anonymous)]`;
}

function showError(e) {
  let name = fieldOf(e, "name");
  if (e instanceof DOMException) name = e.name;
  const known = typeof name === "string" && name !== "" ? name : "Error";
  const label = className(e) ?? known;
  const message = e instanceof DOMException ? e.message : fieldOf(e, "message");
  const title = known === "Error" && label !== "Error" ? label : known;
  const head = typeof message === "string" && message !== "" ? `${title}: ${message}` : title;
  const own = descriptorOf(e, "stack");
  let stack = own ? own.value : stackOf?.call(e);
  stack = typeof stack === "string" ? stack.trimEnd() : "";
  if (stack === "") return `[${head}]`;
  return stack.startsWith(title) ? stack : `${head}\n${stack}`;
}

function showKey(key) {
  if (typeof key === "symbol") return `[${String(key)}]`;
  return identifier.test(key) ? key : quote(key);
}

function nested(ctx, f, by = 2) {
  ctx.indent += by;
  try {
    return f();
  } finally {
    ctx.indent -= by;
  }
}

function showProperty(object, key, ctx, level) {
  const d = descriptorOf(object, key);
  let text;
  if (!d) text = "undefined";
  else if (d.get) text = d.set ? "[Getter/Setter]" : "[Getter]";
  else if (d.set) text = "[Setter]";
  else text = nested(ctx, () => show(d.value, ctx, level + 1), ctx.compact === true ? 3 : 2);
  const isBroken = ctx.compact === true && text.replaceAll("\n", "").length > ctx.breakLength;
  return `${showKey(key)}:${isBroken ? `\n${" ".repeat(ctx.indent + 3)}` : " "}${text}`;
}

function more(list, total, ctx) {
  const rest = total - ctx.maxArrayLength;
  if (rest > 0) list.push(`... ${rest} more item${rest > 1 ? "s" : ""}`);
  return list;
}

/** nextIndex returns the first index of an array, starting at i, that is not a hole. */
function nextIndex(array, i) {
  const next = ownKeys(array).find((key) => typeof key === "string" && /^\d+$/.test(key) && Number(key) > i);
  return next === undefined ? array.length : Number(next);
}

function showItems(array, ctx, level) {
  const out = [];
  const typed = array instanceof TypedArray;
  let i = 0;
  while (i < array.length && out.length < ctx.maxArrayLength && ctx.left > 0) {
    const d = typed ? { value: array[i] } : descriptorOf(array, i);
    if (!d) {
      const next = nextIndex(array, i);
      out.push(`<${next - i} empty item${next - i > 1 ? "s" : ""}>`);
      i = next;
      continue;
    }
    out.push(d.get || d.set ? "[Getter]" : nested(ctx, () => show(d.value, ctx, level + 1)));
    i++;
  }
  const rest = array.length - i;
  if (rest > 0) out.push(`... ${rest} more item${rest > 1 ? "s" : ""}`);
  return out;
}

function showEntries(value, ctx, level) {
  const out = [];
  const isMap = value instanceof Map;
  const list = isMap ? Map.prototype.entries.call(value) : Set.prototype.values.call(value);
  for (const item of list) {
    if (out.length >= ctx.maxArrayLength || ctx.left <= 0) break;
    const one = (v) => nested(ctx, () => show(v, ctx, level + 1));
    out.push(isMap ? `${one(item[0])} => ${one(item[1])}` : one(item));
  }
  return more(out, (isMap ? sizeOf : countOf).call(value), ctx);
}

function keysOf(value, skipIndexes) {
  const keys = ownKeys(value).filter((k) => descriptorOf(value, k)?.enumerable);
  return skipIndexes ? keys.filter((k) => typeof k === "symbol" || !/^\d+$/.test(k)) : keys;
}

function hexOf(bytes, most) {
  const text = [...bytes.subarray(0, most)].map((b) => b.toString(16).padStart(2, "0")).join(" ");
  const rest = bytes.length - most;
  return rest > 0 ? `${text} ... ${rest} more byte${rest > 1 ? "s" : ""}` : text;
}

function boxed(value) {
  for (const Type of [Number, String, Boolean, BigInt, Symbol]) {
    if (value instanceof Type) return [Type.name, Type.prototype.valueOf.call(value)];
  }
}

/** shapeOf returns the prefix, the entries and the remaining keys of an object. */
function shapeOf(value, ctx, level) {
  if (Array.isArray(value)) {
    const name = className(value);
    const start = name === "Array" ? "" : prefixOf(value, "Array", value.length) + " ";
    const keys = value.length > 1000 ? [] : keysOf(value, true);
    return { start, open: "[", close: "]", items: () => showItems(value, ctx, level), size: value.length, keys, list: value };
  }
  if (value instanceof TypedArray) {
    const start = prefixOf(value, "TypedArray", value.length).replace(/ \[\w+\]$/, "") + " ";
    return { start, open: "[", close: "]", items: () => showItems(value, ctx, level), size: value.length, keys: [], list: value };
  }
  if (value instanceof Map || value instanceof Set) {
    const n = (value instanceof Map ? sizeOf : countOf).call(value);
    const items = () => showEntries(value, ctx, level);
    return { start: prefixOf(value, "Map", n) + " ", items, size: n };
  }
  if (value instanceof ArrayBuffer || value instanceof SharedArrayBuffer) {
    const items = () => [`[Uint8Contents]: <${hexOf(new Uint8Array(value), ctx.maxArrayLength)}>`, `[byteLength]: ${value.byteLength}`];
    return { start: prefixOf(value, "ArrayBuffer") + " ", items };
  }
  if (value instanceof Error) return { base: shift(showError(value), ctx), keys: errorKeys(value) };
  if (typeof value === "function") return { base: showFunction(value) };
  if (value instanceof RegExp) return { base: RegExp.prototype.toString.call(value) };
  if (value instanceof Date) {
    const ms = Date.prototype.getTime.call(value);
    return { base: Number.isNaN(ms) ? "Invalid Date" : Date.prototype.toISOString.call(value) };
  }
  if (value instanceof WeakMap || value instanceof WeakSet) {
    return { start: className(value) + " ", items: () => ["<items unknown>"] };
  }
  const box = boxed(value);
  if (box) return { base: `[${box[0]}: ${showPrimitive(box[1], ctx)}]`, keys: keysOf(value, box[0] === "String") };
  const start = prefixOf(value, "Object");
  return { start: start === "Object" ? "" : start + " " };
}

function shift(text, ctx) {
  return text.replaceAll("\n", "\n" + " ".repeat(ctx.indent));
}

function errorKeys(e) {
  const keys = keysOf(e).filter((k) => !["stack", "message", "name"].includes(k));
  for (const k of ["cause", "errors"]) if (!keys.includes(k) && descriptorOf(e, k)) keys.push(k);
  return keys;
}

/**
 * inColumns arranges the items of a list in columns of equal width, as Node does: about 2.5 times as
 * wide as high. Numbers are right-aligned.
 */
function inColumns(items, list, ctx) {
  const count = ctx.maxArrayLength < items.length ? items.length - 1 : items.length; // does not count "more items"
  const gap = 2;
  const total = items.slice(0, count).reduce((n, item) => n + item.length + gap, 0);
  const longest = Math.max(...items.slice(0, count).map((item) => item.length));
  const width = longest + gap;
  if (3 * width + ctx.indent >= ctx.breakLength || (total / width <= 5 && longest > 6)) return items;
  const weight = Math.max(width - 3 - Math.sqrt(width - total / items.length), 1);
  const columns = Math.min(Math.round(Math.sqrt(2.5 * weight * count) / weight), Math.floor((ctx.breakLength - ctx.indent) / width), ctx.compact * 4, 15);
  if (columns <= 1) return items;
  const widths = Array.from({ length: columns }, (_, column) => Math.max(...items.slice(0, count).filter((_, i) => i % columns === column).map((item) => item.length)));
  const isNumber = items.every((_, i) => typeof list[i] === "number" || typeof list[i] === "bigint");
  const lines = [];
  for (let first = 0; first < count; first += columns) {
    const row = items.slice(first, Math.min(first + columns, count));
    lines.push(row.map((item, i) => {
      const isLast = i === row.length - 1;
      if (isNumber) return (isLast ? item : item + ",").padStart(widths[i] + (isLast ? 0 : 1));
      return isLast ? item : (item + ",").padEnd(widths[i] + 1);
    }).join(" "));
  }
  return [...lines, ...items.slice(count)];
}

function sortFields(out, count, order) {
  const fields = out.splice(out.length - count, count);
  out.push(...(order === true ? fields.sort() : fields.sort(order)));
}

function fits(items, used, base, ctx) {
  return items.reduce((n, item) => n + item.length + 1, used) <= ctx.breakLength && !base.includes("\n");
}

function layout(shape, out, ctx, level) {
  const { start = "", open = "{", close = "}", base = "", list } = shape;
  if (out.length === 0) return base || start + open + close;
  const brace = start + open;
  const pad = " ".repeat(ctx.indent);
  if (ctx.compact === true) {
    const head = base ? ` ${base}` : "";
    if (fits(out, 0, base, ctx)) return `${brace}${head} ${out.join(", ")} ${close}`;
    return `${brace}${base === "" && brace.length === 1 ? " " : `${head}\n${pad}  `}${out.join(`,\n${pad}  `)} ${close}`;
  }
  const head = base ? `${base} ${brace}` : brace;
  const items = ctx.compact > 0 && list && out.length > 6 ? inColumns(out, list, ctx) : out;
  const used = items.length + ctx.indent + brace.length + base.length + 10;
  if (items === out && ctx.deepest - level < ctx.compact && fits(out, used, base, ctx) && !out.some((item) => item.includes("\n"))) {
    return `${head} ${out.join(", ")} ${close}`;
  }
  return `${head}\n${pad}  ${items.join(`,\n${pad}  `)}\n${pad}${close}`;
}

function showCustom(value, ctx, level) {
  const f = fieldOf(value, custom);
  if (typeof f !== "function") return;
  const options = { ...ctx.options, depth: ctx.depth - level };
  const text = f.call(value, ctx.depth - level, options, inspect);
  if (text === value) return;
  return typeof text === "string" ? shift(text, ctx) : show(text, ctx, level);
}

function showObject(value, ctx, level) {
  if (ctx.seen.includes(value)) {
    ctx.circular.add(value);
    return `[Circular *${[...ctx.circular].indexOf(value) + 1}]`;
  }
  const own = showCustom(value, ctx, level);
  if (own !== undefined) return own;
  const shape = shapeOf(value, ctx, level);
  const keys = shape.keys ?? keysOf(value);
  if (keys.length === 0 && (shape.size === 0 || !shape.items)) return layout(shape, [], ctx, level);
  if (level > ctx.depth && !shape.base) return `[${prefixOf(value, "Object").replace(/^\[(.*)\]$/, "$1")}]`;
  ctx.deepest = level;
  ctx.seen.push(value);
  const out = shape.items ? shape.items() : [];
  for (const key of keys) {
    if (ctx.left <= 0) {
      out.push("...");
      break;
    }
    out.push(keyed(shape.base && value instanceof Error, showProperty(value, key, ctx, level), key));
  }
  ctx.seen.pop();
  if (ctx.sorted) sortFields(out, shape.list ? Math.min(keys.length, out.length) : out.length, ctx.sorted);
  return layout(ctx.circular.has(value) ? withReference(shape, value, ctx) : shape, out, ctx, level);
}

/** withReference marks an object that a nested value refers to. */
function withReference(shape, value, ctx) {
  const reference = `<ref *${[...ctx.circular].indexOf(value) + 1}>`;
  if (ctx.compact === true) return { ...shape, start: `${reference} ${shape.start ?? ""}` };
  return { ...shape, base: shape.base ? `${reference} ${shape.base}` : reference };
}

function keyed(ofError, text, key) {
  return ofError && (key === "cause" || key === "errors") ? `[${key}]${text.slice(key.length)}` : text;
}

function show(value, ctx, level) {
  if (ctx.left <= 0) return "...";
  let text;
  if (value === null || (typeof value !== "object" && typeof value !== "function")) text = showPrimitive(value, ctx);
  else {
    try {
      text = showObject(value, ctx, level);
    } catch {
      text = "[object that cannot be shown]";
    }
    return text;
  }
  ctx.left -= text.length + 2;
  return text;
}

/** inspect is util.inspect. */
export function inspect(value, options) {
  if (nesting >= maxNesting) return "...";
  nesting++;
  try {
    return begin(value, options);
  } finally {
    nesting--;
  }
}

function begin(value, options) {
  const given = typeof options === "object" && options !== null ? options : {};
  const state = { indent: 0, deepest: 0, left: maxTotal, seen: [], circular: new Set() };
  const ctx = { ...defaults, ...given, ...state, options: given };
  for (const k of ["depth", "maxArrayLength", "maxStringLength"]) ctx[k] ??= k === "depth" ? 100 : Infinity;
  if (ctx.compact === false) ctx.compact = 0;
  ctx.depth = Math.min(ctx.depth, 100);
  return show(value, ctx, 0);
}

inspect.custom = custom;
inspect.defaultOptions = defaults;

function toNumber(value, parse) {
  if (typeof value === "bigint" && parse !== parseFloat) return `${value}n`;
  if (typeof value === "symbol") return "NaN";
  try {
    return showPrimitive(parse(value), defaults);
  } catch {
    return "NaN";
  }
}

function toText(value, options) {
  if (typeof value === "string") return value;
  if ((typeof value !== "object" && typeof value !== "function") || value === null) {
    return showPrimitive(value, defaults);
  }
  try {
    if (typeof value === "function") return String(value);
    const own = fieldOf(value, "toString");
    const plain = [Object, Error, Array, Number, String, Boolean, BigInt, Symbol, RegExp].some((Type) => own === Type.prototype.toString);
    if (typeof own === "function" && !plain && className(value) !== "Date") return String(value);
  } catch {
    // Show the value as an object.
  }
  return inspect(value, { ...options, depth: 0 });
}

function toJSONText(value) {
  try {
    return String(JSON.stringify(value));
  } catch (e) {
    return /circular/i.test(e?.message) ? "[Circular]" : "[object that has no JSON form]";
  }
}

function directive(letter, value, options) {
  switch (letter) {
    case "s":
      return toText(value, options);
    case "d":
      return toNumber(value, Number);
    case "i":
      return toNumber(value, (v) => parseInt(v, 10));
    case "f":
      return toNumber(value, parseFloat);
    case "j":
      return toJSONText(value);
    case "o":
      return inspect(value, { ...options, depth: 4 });
    case "O":
      return inspect(value, options);
    default:
      return "";
  }
}

/** formatWith is util.formatWithOptions. */
export function formatWith(options, args) {
  let rest = args;
  let text = "";
  if (typeof args[0] === "string") {
    let next = 1;
    text = args[0];
    if (args.length > 1) {
      text = text.replace(/%([sdifjoOc%])/g, (all, letter) => {
        if (letter === "%") return "%";
        return next < args.length ? directive(letter, args[next++], options) : all;
      });
    }
    rest = args.slice(next);
    if (rest.length) text += " ";
  }
  return text + rest.map((v) => (typeof v === "string" ? v : inspect(v, options))).join(" ");
}

/** format is util.format. */
export function format(...args) {
  return formatWith({}, args);
}
