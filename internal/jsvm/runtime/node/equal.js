// Deep comparison, for node:assert and node:util.

const isObject = (v) => typeof v === "object" && v !== null;

function enumerable(value) {
  return Reflect.ownKeys(value).filter((k) => Object.getOwnPropertyDescriptor(value, k)?.enumerable);
}

function sameKind(a, b, strict) {
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  if (strict && Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  return Object.prototype.toString.call(a) === Object.prototype.toString.call(b);
}

function sameValue(a, b) {
  if (a instanceof Date) return Object.is(a.getTime(), b.getTime());
  if (a instanceof RegExp) return String(a) === String(b) && a.lastIndex === b.lastIndex;
  if (a instanceof Error) return a.message === b.message && a.name === b.name;
  if ([Number, String, Boolean, BigInt, Symbol].some((T) => a instanceof T)) return Object.is(a.valueOf(), b.valueOf());
  if (a instanceof Promise || a instanceof WeakMap || a instanceof WeakSet) return false;
  return true;
}

function bytes(value) {
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  return value instanceof ArrayBuffer ? new Uint8Array(value) : null;
}

function sameMembers(a, b, compare) {
  const rest = [...b];
  if (a.length !== rest.length) return false;
  return a.every((item) => {
    const at = rest.findIndex((other) => compare(item, other));
    if (at >= 0) rest.splice(at, 1);
    return at >= 0;
  });
}

function sameContent(a, b, compare) {
  if (a instanceof Set) {
    const odd = (x, y) => [...x].filter((v) => isObject(v) || !y.has(v));
    return a.size === b.size && sameMembers(odd(a, b), odd(b, a), compare);
  }
  if (a instanceof Map) {
    const odd = (x, y) => [...x].filter(([k, v]) => isObject(k) || !y.has(k) || !compare(v, y.get(k)));
    return a.size === b.size && sameMembers(odd(a, b), odd(b, a), (p, q) => compare(p[0], q[0]) && compare(p[1], q[1]));
  }
  const [x, y] = [bytes(a), bytes(b)];
  return !x || (x.length === y.length && x.every((n, i) => n === y[i]));
}

/** deepEqual reports whether two values are deeply equal. */
export function deepEqual(a, b, strict, seen = new Map()) {
  if (strict ? Object.is(a, b) : a === b) return true;
  if (!isObject(a) || !isObject(b)) return !strict && !isObject(a) && !isObject(b) && (a == b || (a !== a && b !== b));
  if (seen.get(a) === b) return true;
  if (!sameKind(a, b, strict) || !sameValue(a, b)) return false;
  seen.set(a, b);
  const compare = (x, y) => deepEqual(x, y, strict, seen);
  const same = sameContent(a, b, compare) && sameProperties(a, b, compare);
  seen.delete(a);
  return same;
}

function sameProperties(a, b, compare) {
  if (ArrayBuffer.isView(a)) return true;
  if (Array.isArray(a) && a.length !== b.length) return false;
  const keys = enumerable(a);
  if (keys.length !== enumerable(b).length) return false;
  return keys.every((k) => Object.prototype.propertyIsEnumerable.call(b, k) && compare(a[k], b[k]));
}
