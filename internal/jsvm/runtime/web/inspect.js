// util.inspect. It never throws or runs a getter, and its output is bounded.
import { custom } from "./base.js";

const { getOwnPropertyDescriptor: descriptorOf, getPrototypeOf, ownKeys } = Reflect;
const stackOf = Object.getOwnPropertyDescriptor(Error.prototype, "stack")?.get;
const sizeOf = Object.getOwnPropertyDescriptor(Map.prototype, "size").get;
const countOf = Object.getOwnPropertyDescriptor(Set.prototype, "size").get;
const TypedArray = getPrototypeOf(Uint8Array);
const identifier = /^[A-Za-z_$][\w$]*$/;
const escapes = { "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f", "\v": "\\v", "\\": "\\\\" };
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
    if (code >= 0xd800) return "\\u" + code.toString(16).toUpperCase();
    return escapes[c] ?? "\\x" + code.toString(16).toUpperCase().padStart(2, "0");
  });
  return mark + body + mark;
}

function showString(text, ctx) {
  const more = text.length - ctx.maxStringLength;
  if (more <= 0) return quote(text);
  return `${quote(text.slice(0, ctx.maxStringLength))}... ${more} more character${more > 1 ? "s" : ""}`;
}

function showPrimitive(value, ctx) {
  if (typeof value === "string") return showString(value, ctx);
  if (typeof value === "bigint") return `${value}n`;
  return Object.is(value, -0) ? "-0" : String(value);
}

/** fieldOf reads a data property of an object or its prototypes, without running getters. */
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

function nested(ctx, f) {
  ctx.indent += 2;
  try {
    return f();
  } finally {
    ctx.indent -= 2;
  }
}

function showProperty(object, key, ctx, level) {
  const d = descriptorOf(object, key);
  let text;
  if (!d) text = "undefined";
  else if (d.get) text = d.set ? "[Getter/Setter]" : "[Getter]";
  else if (d.set) text = "[Setter]";
  else text = nested(ctx, () => show(d.value, ctx, level + 1));
  return `${showKey(key)}: ${text}`;
}

function more(list, total, ctx) {
  const rest = total - ctx.maxArrayLength;
  if (rest > 0) list.push(`... ${rest} more item${rest > 1 ? "s" : ""}`);
  return list;
}

function showItems(array, ctx, level) {
  const out = [];
  const n = Math.min(array.length, ctx.maxArrayLength);
  const typed = array instanceof TypedArray;
  let holes = 0;
  const flush = () => {
    if (holes) out.push(`<${holes} empty item${holes > 1 ? "s" : ""}>`);
    holes = 0;
  };
  for (let i = 0; i < n && ctx.left > 0; i++) {
    const d = typed ? { value: array[i] } : descriptorOf(array, i);
    if (!d) {
      holes++;
      continue;
    }
    flush();
    out.push(d.get || d.set ? "[Getter]" : nested(ctx, () => show(d.value, ctx, level + 1)));
  }
  flush();
  return more(out, array.length, ctx);
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

function hexOf(bytes) {
  const text = [...bytes.subarray(0, 50)].map((b) => b.toString(16).padStart(2, "0")).join(" ");
  return bytes.length > 50 ? `${text} ... ${bytes.length - 50} more bytes` : text;
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
    return { start, open: "[", close: "]", items: () => showItems(value, ctx, level), keys, list: true, wrap: true };
  }
  if (value instanceof TypedArray) {
    const start = prefixOf(value, "TypedArray", value.length).replace(/ \[\w+\]$/, "") + " ";
    return { start, open: "[", close: "]", items: () => showItems(value, ctx, level), keys: [], list: true, wrap: true };
  }
  if (value instanceof Map || value instanceof Set) {
    const n = (value instanceof Map ? sizeOf : countOf).call(value);
    const items = () => showEntries(value, ctx, level);
    return { start: prefixOf(value, "Map", n) + " ", items, wrap: value instanceof Set };
  }
  if (value instanceof ArrayBuffer || value instanceof SharedArrayBuffer) {
    const items = () => [`[Uint8Contents]: <${hexOf(new Uint8Array(value))}>`, `byteLength: ${value.byteLength}`];
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

function wrapItems(items, pad, width) {
  const lines = [];
  for (const item of items) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + item.length + 2 <= width) lines[lines.length - 1] = `${last}, ${item}`;
    else lines.push(item);
  }
  return lines.join(",\n" + pad);
}

function layout(shape, out, ctx, level) {
  const { start = "", open = "{", close = "}", base = "", wrap } = shape;
  const head = base ? base + " " + open : start + open;
  if (out.length === 0) return base || start + open + close;
  const length = out.reduce((n, s) => n + s.length + 2, 0);
  const flat = !out.some((s) => s.includes("\n")) && !base.includes("\n");
  const limit = Math.min(76, ctx.breakLength - 4) - ctx.indent;
  if (flat && ctx.deepest - level < ctx.compact && length + head.length <= limit) {
    return `${head} ${out.join(", ")} ${close}`;
  }
  const pad = " ".repeat(ctx.indent + 2);
  const short = wrap && flat && out.length > 6 && length / out.length <= 18;
  const body = short ? wrapItems(out, pad, limit) : out.join(",\n" + pad);
  return `${head}\n${pad}${body}\n${" ".repeat(ctx.indent)}${close}`;
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
  if (level > ctx.depth && (keys.length || shape.items) && !shape.base) {
    return shape.list ? "[Array]" : `[${(shape.start || prefixOf(value, "Object")).trim()}]`;
  }
  ctx.deepest = level;
  ctx.seen.push(value);
  const out = shape.items ? shape.items() : [];
  const shown = keys.slice(0, ctx.maxArrayLength);
  for (const key of shown) {
    if (ctx.left <= 0) break;
    out.push(keyed(shape.base && value instanceof Error, showProperty(value, key, ctx, level), key));
  }
  more(out, keys.length, ctx);
  ctx.seen.pop();
  const text = layout(shape, out, ctx, level);
  if (!ctx.circular.has(value)) return text;
  return `<ref *${[...ctx.circular].indexOf(value) + 1}> ${text}`;
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
  if (typeof ctx.compact !== "number") ctx.compact = ctx.compact ? 3 : 0;
  ctx.depth = Math.min(ctx.depth, 100);
  return show(value, ctx, 0);
}

inspect.custom = custom;
inspect.defaultOptions = defaults;

function toNumber(value, parse) {
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "symbol" || (typeof value === "object" && value !== null && parse !== Number)) return "NaN";
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
    const plain = [Object, Error, Array].some((Type) => own === Type.prototype.toString);
    if (typeof own === "function" && !plain && className(value) !== "Date") return String(value);
  } catch {
    // Show it as an object.
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
