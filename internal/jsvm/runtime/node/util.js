// node:util.
import { TextDecoder, TextEncoder } from "../web/encoding.js";
import { format, formatWith, inspect } from "../web/inspect.js";
import { deepEqual } from "./equal.js";

const typedArray = Object.getPrototypeOf(Uint8Array);
const promisified = Symbol.for("nodejs.util.promisify.custom");
const tag = (v) => Object.prototype.toString.call(v).slice(8, -1);

function promisify(f) {
  if (typeof f !== "function") throw new TypeError('The "original" argument must be of type function');
  if (typeof f[promisified] === "function") return f[promisified];
  const result = function (...args) {
    return new Promise((resolve, reject) => f.call(this, ...args, (e, value) => (e ? reject(e) : resolve(value))));
  };
  Object.setPrototypeOf(result, Object.getPrototypeOf(f));
  return Object.defineProperties(result, Object.getOwnPropertyDescriptors(f));
}
promisify.custom = promisified;

function callbackify(f) {
  return function (...args) {
    const done = args.pop();
    f.apply(this, args).then(
      (value) => queueMicrotask(() => done(null, value)),
      (e) => queueMicrotask(() => done(e ?? new Error("Promise was rejected with a falsy value"))),
    );
  };
}

function inherits(child, parent) {
  Object.defineProperty(child, "super_", { value: parent, writable: true, configurable: true });
  Object.setPrototypeOf(child.prototype, parent.prototype);
}

/** types is util.types. */
export const types = {
  isArrayBuffer: (v) => v instanceof ArrayBuffer,
  isAnyArrayBuffer: (v) => v instanceof ArrayBuffer || v instanceof SharedArrayBuffer,
  isArrayBufferView: (v) => ArrayBuffer.isView(v),
  isAsyncFunction: (v) => typeof v === "function" && /^Async/.test(tag(v)),
  isBoxedPrimitive: (v) => [Number, String, Boolean, BigInt, Symbol].some((Type) => v instanceof Type),
  isDataView: (v) => v instanceof DataView,
  isDate: (v) => v instanceof Date,
  isGeneratorFunction: (v) => typeof v === "function" && /GeneratorFunction$/.test(tag(v)),
  isGeneratorObject: (v) => tag(v) === "Generator",
  isMap: (v) => v instanceof Map,
  isNativeError: (v) => v instanceof Error,
  isPromise: (v) => v instanceof Promise,
  isProxy: () => false,
  isRegExp: (v) => v instanceof RegExp,
  isSet: (v) => v instanceof Set,
  isSharedArrayBuffer: (v) => v instanceof SharedArrayBuffer,
  isTypedArray: (v) => v instanceof typedArray,
  isUint8Array: (v) => v instanceof Uint8Array,
  isWeakMap: (v) => v instanceof WeakMap,
  isWeakSet: (v) => v instanceof WeakSet,
};

/** util is node:util. */
export const util = {
  inspect,
  format,
  formatWithOptions: (options, ...args) => formatWith(options, args),
  promisify,
  callbackify,
  inherits,
  isDeepStrictEqual: (a, b) => deepEqual(a, b, true),
  types,
  TextEncoder,
  TextDecoder,
  deprecate: (f) => f,
  debuglog: () => Object.assign(() => {}, { enabled: false }),
  isArray: Array.isArray,
  toUSVString: (text) => `${text}`.toWellFormed(),
  stripVTControlCharacters: (text) => text.replace(/\u001b\[[0-9;?]*[A-Za-z]|\u001b\][^\u0007]*\u0007/g, ""),
};
