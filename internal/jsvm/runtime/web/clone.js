// structuredClone.
import { bytesOf, failure, hide, install } from "./base.js";

const errorTypes = { Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };
const typedArray = Object.getPrototypeOf(Uint8Array);
const kindOf = Object.getOwnPropertyDescriptor(typedArray.prototype, Symbol.toStringTag).get;

function refuse(value) {
  let text = "that object";
  try {
    text = typeof value === "function" ? (/^[^{]*/.exec(`${value}`)[0].trim().slice(0, 60) || "function") : String(value);
  } catch {
    // Keep "that object".
  }
  return new DOMException(`${text} could not be cloned.`, "DataCloneError");
}

function copyError(e) {
  const Type = Object.hasOwn(errorTypes, e.name) ? errorTypes[e.name] : Error;
  const result = Object.hasOwn(e, "message") ? new Type(`${e.message}`) : new Type();
  if (typeof e.stack === "string") hide(result, "stack", e.stack);
  return result;
}

function copyView(view, clone) {
  const buffer = clone(view.buffer);
  if (view instanceof DataView) return new DataView(buffer, view.byteOffset, view.byteLength);
  const Type = globalThis[kindOf.call(view)];
  return new Type(buffer, view.byteOffset, view.length);
}

/** shell returns an empty copy of an object, or undefined for plain objects. */
function shell(value, clone) {
  if (Array.isArray(value)) return new Array(value.length);
  if (value instanceof Date) return new Date(value.getTime());
  if (value instanceof RegExp) return new RegExp(value.source, value.flags);
  if (value instanceof Map) return new Map();
  if (value instanceof Set) return new Set();
  if (value instanceof Error) return copyError(value);
  if (value instanceof ArrayBuffer) return value.slice(0);
  if (value instanceof SharedArrayBuffer) return bytesOf(value).slice().buffer;
  if (ArrayBuffer.isView(value)) return copyView(value, clone);
  for (const Type of [Number, String, Boolean, BigInt]) if (value instanceof Type) return Object(value.valueOf());
  for (const Type of [WeakMap, WeakSet, WeakRef, Promise, Symbol]) if (value instanceof Type) throw refuse(value);
}

function fill(copy, value, clone) {
  if (copy instanceof Map) for (const [k, v] of [...value]) copy.set(clone(k), clone(v));
  else if (copy instanceof Set) for (const v of [...value]) copy.add(clone(v));
  else if (copy instanceof Error) {
    if (Object.hasOwn(value, "cause")) hide(copy, "cause", clone(value.cause));
  } else for (const key of Object.keys(value)) copy[key] = clone(value[key]);
}

function structuredClone(value) {
  if (arguments.length === 0) throw failure(TypeError, "ERR_MISSING_ARGS", 'The "value" argument must be specified');
  const seen = new Map();
  const clone = (v) => {
    if (typeof v === "function" || typeof v === "symbol") throw refuse(v);
    if (typeof v !== "object" || v === null) return v;
    if (seen.has(v)) return seen.get(v);
    const special = shell(v, clone);
    const copy = special ?? {};
    seen.set(v, copy);
    const plain = special === undefined || Array.isArray(special);
    if (plain || copy instanceof Map || copy instanceof Set || copy instanceof Error) fill(copy, v, clone);
    return copy;
  };
  return clone(value);
}

install({ structuredClone });
Object.defineProperty(structuredClone, "name", { value: "structuredClone" });
