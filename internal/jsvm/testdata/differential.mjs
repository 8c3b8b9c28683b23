// Runs generated cases, in our engine and in Node. Each result is a text; errors are reported by name.
import assert from "node:assert";
import { EventEmitter } from "node:events";
import { posix } from "node:path";
import { format, inspect, isDeepStrictEqual } from "node:util";

const text = (units) => String.fromCharCode(...units);
const unitsOf = (value) => Array.from({ length: value.length }, (_, i) => value.charCodeAt(i).toString(16)).join(" ");

/** Creates a value from a recipe. */
function build([type, a, b]) {
  const members = (list, target) => {
    for (const [key, value] of list) target[key] = build(value);
    return target;
  };
  switch (type) {
    case "undefined": return undefined;
    case "null": return null;
    case "number": return Number(a);
    case "boolean": case "text": return a;
    case "string": return text(a);
    case "bigint": return BigInt(a);
    case "date": return new Date(Number(a));
    case "regexp": return new RegExp(a, b);
    case "bytes": return new Uint8Array(a);
    case "buffer": return Buffer.from(a);
    case "arrayBuffer": return new Uint8Array(a).buffer;
    case "boxed": return Object(a);
    case "symbol": return Symbol(a);
    case "function": return a ? { f() {} }.f : (() => () => {})();
    case "class": return class C {};
    case "promise": return Promise.resolve(1);
    case "weakmap": return new WeakMap();
    case "error": {
      const error = new globalThis[a](b);
      return Object.defineProperty(error, "stack", { value: `${a}: ${b}\n    at somewhere`, configurable: true, writable: true });
    }
    case "array": return a.map(build);
    case "sparse": {
      const list = new Array(a);
      list.push(...b.map(build));
      return list;
    }
    case "map": return new Map(a.map(([key, value]) => [key, build(value)]));
    case "set": return new Set(a.map(build));
    case "object": return members(a, {});
    case "nullObject": return members(a, Object.create(null));
    case "instance": return members(a, new (class Thing {})());
    case "cycle": {
      const object = members(a, {});
      object.self = object;
      return object;
    }
    case "shared": {
      const value = build(a);
      return [value, value];
    }
  }
  throw new Error(`unknown recipe ${type}`);
}

const urlText = (url) => JSON.stringify(["href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash"].map((name) => url[name]));

const kinds = {
  url: (input, base) => urlText(base === undefined ? new URL(input) : new URL(input, base)),
  urlSet(input, name, value) {
    const url = new URL(input);
    url[name] = value;
    return urlText(url);
  },
  params(query, ops) {
    const params = new URLSearchParams(query);
    const results = ops.map(([op, name, value]) => params[op](...(op === "append" || op === "set" ? [name, value] : op === "sort" ? [] : [name])) ?? null);
    return JSON.stringify([params.toString(), [...params], params.size, results]);
  },
  encode(units) {
    const input = text(units);
    const target = new Uint8Array(7);
    const { read, written } = new TextEncoder().encodeInto(input, target);
    return [new TextEncoder().encode(input).join(), target.join(), read, written].join("|");
  },
  decode(bytes, label, fatal, ignoreBOM, cut) {
    const decoder = new TextDecoder(label, { fatal, ignoreBOM });
    const all = new Uint8Array(bytes);
    const parts = decoder.decode(all.subarray(0, cut), { stream: true }) + decoder.decode(all.subarray(cut));
    return [decoder.encoding, unitsOf(parts), unitsOf(new TextDecoder(label, { fatal, ignoreBOM }).decode(all))].join("|");
  },
  bufferText(units, from, to) {
    const buffer = Buffer.from(text(units), from);
    return [buffer.join(), unitsOf(buffer.toString(to)), Buffer.byteLength(text(units), from), buffer.write(text(units), 1, from), buffer.join()].join("|");
  },
  bufferBytes(a, b, start, end, encoding) {
    const [x, y] = [Buffer.from(a), Buffer.from(b)];
    return [
      Buffer.compare(x, y), x.equals(y), Buffer.concat([x, y], Math.abs(end)).join(), x.subarray(start, end).join(), x.indexOf(y), x.lastIndexOf(y), x.includes(y[0] ?? 0),
      x.indexOf(y, start), unitsOf(x.toString(encoding, start, end)), Buffer.alloc(5, y.length > 0 ? y : 0).join(), x.copy(y, Math.abs(start), 0), y.join(), JSON.stringify(x), x.fill(7, 1, 3).join(),
    ].join("|");
  },
  bufferNumber(name, value, offset, length) {
    const sized = /Int(LE|BE)$/.test(name) && !/\d/.test(name);
    const buffer = Buffer.alloc(9, 0xa5);
    const args = sized ? [offset, length] : [offset];
    return [buffer[`write${name}`](value, ...args), buffer.join(), buffer[`read${name}`](...args)].join("|");
  },
  clone: (recipe) => inspect(structuredClone(build(recipe)), { depth: 9 }),
  inspect: (recipe, options) => inspect(build(recipe), options),
  format: (template, ...recipes) => format(template, ...recipes.map(build)),
  path: (name, ...args) => JSON.stringify(posix[name](...args)),
  equal(a, b) {
    const [x, y] = [build(a), build(b)];
    const passes = (check) => {
      try {
        assert[check](x, y);
        return check;
      } catch (error) {
        return `${error.name} ${error.code}`;
      }
    };
    return [isDeepStrictEqual(x, y), passes("deepEqual"), passes("notDeepEqual"), passes("deepStrictEqual"), passes("notDeepStrictEqual"), passes("strictEqual")].join("|");
  },
  // Runs a program on an emitter. Listeners are numbered, and log their calls.
  events(program) {
    const log = [];
    const emitter = new EventEmitter();
    const listeners = [0, 1, 2].map((n) => function (...args) {
      log.push([n, this === emitter, args]);
      if (n === 2) emitter.off("a", listeners[0]);
    });
    const named = (f) => listeners.indexOf(f.listener ?? f);
    for (const [op, name, n] of program) {
      const f = listeners[n];
      switch (op) {
        case "emit": log.push(emitter.emit(name, n, "x")); break;
        case "listeners": case "rawListeners": log.push(emitter[op](name).map(named)); break;
        case "listenerCount": log.push(emitter.listenerCount(name), emitter.listenerCount(name, f)); break;
        case "eventNames": log.push(emitter.eventNames()); break;
        case "removeAllListeners": log.push(emitter.removeAllListeners(...(n === 0 ? [] : [name])) === emitter); break;
        default: log.push(emitter[op](name, f) === emitter);
      }
    }
    return JSON.stringify(log, (_, value) => (typeof value === "function" ? named(value) : value));
  },
};

export default function run(cases) {
  return cases.map(({ kind, args }) => {
    try {
      return String(kinds[kind](...args));
    } catch (error) {
      return `throws ${error.name}${error.code === undefined || error.code === null ? "" : ` ${error.code}`}`;
    }
  });
}
