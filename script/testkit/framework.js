// The test framework of toolyard test. A test file registers its tests while it is loaded; each test
// then runs in a VM that starts from the state after loading.
import { AssertionError } from "node:assert";
import { inspect } from "node:util";

const newSuite = (name, parent, mode) => ({ name, parent, mode, before: [], after: [], beforeEach: [], afterEach: [] });

const root = newSuite("", undefined, "run");
const tests = [];
let current = root;
let running = false;

function mustBeLoading(what) {
  if (running) throw new Error(`${what} must not be called inside a test`);
}

/** options reads (name, fn, timeout), (name, options, fn) and (fn). */
function options(args) {
  const name = typeof args[0] === "function" ? args[0].name : String(args[0] ?? "");
  const fn = args.find((a) => typeof a === "function");
  const timeout = args.find((a) => typeof a === "number");
  return { timeout, ...args.slice(1).find((a) => typeof a === "object" && a !== null), name, fn };
}

function modeOf(o, mode) {
  if (o.todo || !o.fn) return "todo";
  if (o.skip) return "skip";
  return o.only ? "only" : mode;
}

function addTest(mode, args) {
  mustBeLoading("test()");
  const o = options(args);
  tests.push({ name: o.name || "(unnamed test)", suite: current, fn: o.fn, mode: modeOf(o, mode), timeout: o.timeout });
}

function addSuite(mode, args) {
  mustBeLoading("describe()");
  const o = options(args);
  if (!o.fn) throw new Error(`describe(${JSON.stringify(o.name)}) requires a function`);
  const outer = current;
  current = newSuite(o.name, outer, modeOf(o, mode));
  try {
    if (typeof o.fn()?.then === "function") throw new Error("the function passed to describe() must not be async: load data in beforeAll()");
  } finally {
    current = outer;
  }
}

/** variants adds skip, only, todo and each to test or describe. */
function variants(add) {
  const f = (...args) => add("run", args);
  const each = (mode) => (table, ...values) => (name, fn, timeout) => {
    const rows = Array.isArray(table) && !table.raw ? table : rowsOf(table, values);
    rows.forEach((row, i) => {
      const list = Array.isArray(row) ? row : [row];
      add(mode, [titleOf(name, list, i), () => fn(...list), timeout]);
    });
  };
  return Object.assign(f, {
    each: each("run"),
    skip: Object.assign((...args) => add("skip", args), { each: each("skip") }),
    only: Object.assign((...args) => add("only", args), { each: each("only") }),
    todo: (name) => add("todo", [name]),
    skipIf: (condition) => (...args) => add(condition ? "skip" : "run", args),
    runIf: (condition) => (...args) => add(condition ? "run" : "skip", args),
    concurrent: f,
    sequential: f,
  });
}

/** rowsOf reads the rows of a tagged template table. */
function rowsOf(parts, values) {
  const names = parts[0].split("|").map((s) => s.trim()).filter(Boolean);
  const rows = [];
  for (let i = 0; i + names.length <= values.length; i += names.length) {
    rows.push(Object.fromEntries(names.map((n, k) => [n, values[i + k]])));
  }
  return rows;
}

function titleOf(name, values, index) {
  let next = 0;
  const first = values[0];
  return String(name)
    .replace(/%([sdifjop#%])/g, (_, kind) => {
      if (kind === "%") return "%";
      if (kind === "#") return String(index);
      const value = values[next++];
      return kind === "s" ? String(value) : kind === "j" ? JSON.stringify(value) : show(value);
    })
    .replace(/\$([A-Za-z_$][\w$]*)/g, (all, key) => (typeof first === "object" && first !== null && key in first ? show(first[key]) : all));
}

export const test = variants(addTest);
export const it = test;
export const describe = variants(addSuite);
export const suite = describe;

const hook = (kind) => (fn) => {
  mustBeLoading(`${kind}()`);
  current[kind].push(fn);
};
export const beforeAll = hook("before");
export const afterAll = hook("after");
export const beforeEach = hook("beforeEach");
export const afterEach = hook("afterEach");

/** lineage is a suite and all that contain it, outermost first. */
function lineage(suite) {
  const list = [];
  for (let s = suite; s; s = s.parent) list.unshift(s);
  return list;
}

/** collect returns the tests of the file. If one is marked with only, the others are skipped. */
export function collect() {
  const modes = tests.map((t) => {
    const all = [...lineage(t.suite).map((s) => s.mode), t.mode];
    return all.includes("skip") ? "skip" : t.mode === "todo" || all.includes("todo") ? "todo" : all.includes("only") ? "only" : "run";
  });
  const only = modes.includes("only");
  return tests.map((t, i) => ({
    name: [...lineage(t.suite).slice(1).map((s) => s.name), t.name],
    mode: modes[i] === "only" ? "run" : modes[i] === "run" && only ? "skip" : modes[i],
    timeout: t.timeout,
  }));
}

class Skipped extends Error {}

/** testContext is the argument of a test function, with the members of node:test and Vitest that tests use. */
function testContext(t) {
  const later = [];
  const ctx = {
    name: t.name,
    task: { name: t.name },
    expect,
    mock: nodeMock,
    later,
    skip(reason) {
      throw new Skipped(reason === undefined ? "" : String(reason));
    },
    todo: (reason) => ctx.skip(reason),
    diagnostic: (text) => console.log(text),
    after: (fn) => void later.push(fn),
    onTestFinished: (fn) => void later.push(fn),
    async test(...args) {
      const o = options(args);
      if (o.skip || o.todo || !o.fn) return;
      try {
        await o.fn(testContext(o));
      } catch (e) {
        if (e instanceof Skipped) return;
        if (e instanceof Error) e.message = `${o.name}: ${e.message}`;
        throw e;
      }
    },
  };
  ctx.it = ctx.test;
  return ctx;
}

/** runTest runs one test with its hooks. It throws the first error. */
export async function runTest(index) {
  running = true;
  const t = tests[index];
  const suites = lineage(t.suite);
  const context = testContext(t);
  const errors = [];
  let skipped;
  const attempt = async (fn, ...args) => {
    try {
      await fn(...args);
    } catch (e) {
      if (e instanceof Skipped) skipped = e;
      else errors.push(e);
    }
  };
  await attempt(async () => {
    for (const s of suites) for (const fn of s.before) await fn(context);
    for (const s of suites) for (const fn of s.beforeEach) await fn(context);
    await t.fn(context);
    for (const promise of forgotten) await promise;
    checkCount();
  });
  for (const fn of context.later.reverse()) await attempt(fn, context);
  for (const s of suites.reverse()) for (const fn of s.afterEach.reverse()) await attempt(fn, context);
  for (const s of suites) for (const fn of s.after.reverse()) await attempt(fn, context);
  if (errors.length) throw errors[0];
  return skipped ? { skipped: skipped.message } : {};
}

// ---------------------------------------------------------------------------------------
// Expectations

function show(value) {
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  return inspect(value, { depth: 6, maxStringLength: 2000, maxArrayLength: 50, breakLength: 100 });
}

const isObject = (v) => typeof v === "object" && v !== null;
const isMatcher = (v) => isObject(v) && typeof v.asymmetricMatch === "function";

/** members lists the keys of an object that equality considers. */
function members(value, strict) {
  return Reflect.ownKeys(value).filter((k) => Object.prototype.propertyIsEnumerable.call(value, k) && (strict || value[k] !== undefined));
}

const bytesOf = (v) =>
  ArrayBuffer.isView(v) ? new Uint8Array(v.buffer, v.byteOffset, v.byteLength) : v instanceof ArrayBuffer ? new Uint8Array(v) : undefined;

/** leaf compares values that are not compared by their members; undefined if both must be. */
function leaf(a, b) {
  if (a instanceof Date || b instanceof Date) return a instanceof Date && b instanceof Date && Object.is(+a, +b);
  if (a instanceof RegExp) return b instanceof RegExp && String(a) === String(b);
  if (a instanceof Error) return b instanceof Error && a.message === b.message && a.name === b.name;
  for (const T of [Number, String, Boolean]) if (a instanceof T) return b instanceof T && Object.is(a.valueOf(), b.valueOf());
  const [x, y] = [bytesOf(a), bytesOf(b)];
  if (x || y) return !!x && !!y && x.length === y.length && x.every((n, i) => n === y[i]);
}

/** equals compares deeply. Strict equality also considers undefined members and prototypes. */
export function equals(a, b, strict = false, seen = new Map()) {
  if (isMatcher(b)) return b.asymmetricMatch(a);
  if (isMatcher(a)) return a.asymmetricMatch(b);
  if (Object.is(a, b)) return true;
  if (!isObject(a) || !isObject(b)) return false;
  const same = leaf(a, b);
  if (same !== undefined) return same;
  if (Array.isArray(a) !== Array.isArray(b) || a instanceof Map !== b instanceof Map || a instanceof Set !== b instanceof Set) return false;
  if (strict && Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  if (seen.get(a) === b) return true;
  seen.set(a, b);
  const eq = (x, y) => equals(x, y, strict, seen);
  if (a instanceof Map) return a.size === b.size && [...a].every(([k, v]) => (b.has(k) ? eq(v, b.get(k)) : [...b].some(([l, w]) => eq(k, l) && eq(v, w))));
  if (a instanceof Set) return a.size === b.size && [...a].every((v) => b.has(v) || [...b].some((w) => eq(v, w)));
  if (Array.isArray(a) && a.length !== b.length) return false;
  const [keys, others] = [members(a, strict), members(b, strict)];
  return keys.length === others.length && keys.every((k) => Object.hasOwn(b, k) && eq(a[k], b[k]));
}

/** contains reports whether all members of expected are in actual. */
function contains(actual, expected) {
  if (isMatcher(expected) || !isObject(expected) || leaf(expected, expected) !== undefined) return equals(actual, expected);
  if (!isObject(actual)) return false;
  if (Array.isArray(expected)) {
    return Array.isArray(actual) && actual.length === expected.length && expected.every((e, i) => contains(actual[i], e));
  }
  return members(expected, true).every((k) => k in actual && contains(actual[k], expected[k]));
}

class Matcher {
  constructor(text, test) {
    this.text = text;
    this.asymmetricMatch = test;
  }
  [Symbol.for("nodejs.util.inspect.custom")]() {
    return this.text;
  }
}

const kinds = { String: "string", Number: "number", Boolean: "boolean", BigInt: "bigint", Symbol: "symbol", Function: "function" };
const isKind = (v, T) => (kinds[T.name] ? typeof v === kinds[T.name] || v instanceof T : T === Object ? isObject(v) : v instanceof T);

function matchers(not) {
  const make = (text, test) => new Matcher(not ? `not ${text}` : text, (v) => test(v) !== not);
  return {
    objectContaining: (o) => make(`objectContaining(${show(o)})`, (v) => contains(v, o)),
    arrayContaining: (list) => make(`arrayContaining(${show(list)})`, (v) => Array.isArray(v) && list.every((e) => v.some((x) => equals(x, e)))),
    stringContaining: (s) => make(`stringContaining(${show(s)})`, (v) => typeof v === "string" && v.includes(s)),
    stringMatching: (re) => make(`stringMatching(${re})`, (v) => typeof v === "string" && new RegExp(re).test(v)),
    closeTo: (n, digits = 2) => make(`closeTo(${n})`, (v) => typeof v === "number" && Math.abs(v - n) < 10 ** -digits / 2),
  };
}

let asserted = 0;
let wanted;

/** checkCount fails if fewer expectations were checked than expect.assertions announced. */
function checkCount() {
  if (wanted !== undefined && (wanted === "some" ? asserted === 0 : asserted !== wanted)) {
    throw new AssertionError({ message: `expected ${wanted === "some" ? "at least one" : wanted} assertion(s), but ${asserted} ran` });
  }
}

function lengthOf(v) {
  const n = v?.length ?? v?.size;
  if (typeof n !== "number") throw new TypeError(`${show(v)} has no length`);
  return n;
}

function itemsOf(v) {
  if (typeof v?.[Symbol.iterator] !== "function") throw new TypeError(`${show(v)} is not iterable`);
  return [...v];
}

/** at follows a path such as "a.b[0]" or ["a", "b", 0]. */
function at(value, path) {
  const keys = Array.isArray(path) ? path : String(path).split(/[.[\]]+/).filter((k) => k !== "");
  for (const [i, key] of keys.entries()) {
    if (value === null || value === undefined || !(key in Object(value))) return { found: false, path: keys.slice(0, i + 1).join(".") };
    value = value[key];
  }
  return { found: true, value };
}

const callsOf = (f) => {
  if (!Array.isArray(f?.mock?.calls)) throw new TypeError(`${show(f)} is not a mock: create it with fn() or spyOn()`);
  return f.mock.calls.map((c) => (Array.isArray(c) ? c : c.arguments));
};

/** isThrown reports whether an error is the one that toThrow expects. */
function isThrown(e, expected) {
  if (expected === undefined) return true;
  const message = isObject(e) && "message" in e ? String(e.message) : String(e);
  if (typeof expected === "string") return message.includes(expected);
  if (expected instanceof RegExp) return expected.test(message);
  if (typeof expected === "function") return e instanceof expected;
  if (expected instanceof Error) return message === expected.message;
  return contains(e, expected);
}

const number = (v) => (typeof v === "number" || typeof v === "bigint" ? v : fault(`${show(v)} is not a number`));
function fault(message) {
  throw new TypeError(message);
}

/** Each check returns whether it holds, and the rest of the sentence "expected X to …". */
const checks = {
  toBe: (a, e) => [Object.is(a, e), `be ${show(e)}`],
  toEqual: (a, e) => [equals(a, e), `equal ${show(e)}`],
  toStrictEqual: (a, e) => [equals(a, e, true), `strictly equal ${show(e)}`],
  toMatchObject: (a, e) => [contains(a, e), `match ${show(e)}`],
  toBeTruthy: (a) => [!!a, "be truthy"],
  toBeFalsy: (a) => [!a, "be falsy"],
  toBeNull: (a) => [a === null, "be null"],
  toBeUndefined: (a) => [a === undefined, "be undefined"],
  toBeDefined: (a) => [a !== undefined, "be defined"],
  toBeNullish: (a) => [a === null || a === undefined, "be null or undefined"],
  toBeNaN: (a) => [Number.isNaN(a), "be NaN"],
  toBeGreaterThan: (a, e) => [number(a) > number(e), `be greater than ${show(e)}`],
  toBeGreaterThanOrEqual: (a, e) => [number(a) >= number(e), `be at least ${show(e)}`],
  toBeLessThan: (a, e) => [number(a) < number(e), `be less than ${show(e)}`],
  toBeLessThanOrEqual: (a, e) => [number(a) <= number(e), `be at most ${show(e)}`],
  toBeCloseTo: (a, e, digits = 2) => [a === e || Math.abs(number(a) - e) < 10 ** -digits / 2, `be close to ${show(e)}, to ${digits} digits`],
  toBeInstanceOf: (a, T) => [a instanceof T, `be an instance of ${T?.name}`],
  toBeTypeOf: (a, type) => [typeof a === type, `be of type ${type}`],
  toBeOneOf: (a, list) => [itemsOf(list).some((e) => equals(a, e)), `be one of ${show(list)}`],
  toHaveLength: (a, n) => [lengthOf(a) === n, `have length ${n}, not ${lengthOf(a)}`],
  toContain: (a, e) => [typeof a === "string" ? a.includes(e) : itemsOf(a).includes(e), `contain ${show(e)}`],
  toContainEqual: (a, e) => [itemsOf(a).some((v) => equals(v, e)), `contain ${show(e)}`],
  toMatch: (a, e) => [typeof a === "string" && (e instanceof RegExp ? e.test(a) : a.includes(e)), `match ${e instanceof RegExp ? e : show(e)}`],
  toHaveProperty(a, path, ...rest) {
    const p = at(a, path);
    return [p.found && (!rest.length || equals(p.value, rest[0])), `have the property ${show(path)}${rest.length ? ` with the value ${show(rest[0])}` : ""}`];
  },
  toSatisfy: (a, f) => [!!f(a), `satisfy ${f.name || "the function"}`],
  toThrow(a, expected) {
    let thrown;
    if (a instanceof Rejection) thrown = a;
    else if (typeof a !== "function") fault("toThrow needs a function: expect(() => …).toThrow()");
    else {
      try {
        a();
      } catch (e) {
        thrown = new Rejection(e);
      }
    }
    const what = expected === undefined ? "throw" : `throw ${show(expected)}`;
    return [!!thrown && isThrown(thrown.error, expected), thrown ? `${what}; it threw ${show(thrown.error)}` : what];
  },
  toHaveBeenCalled: (f) => [callsOf(f).length > 0, "have been called"],
  toHaveBeenCalledOnce: (f) => [callsOf(f).length === 1, `have been called once; it was called ${callsOf(f).length} times`],
  toHaveBeenCalledTimes: (f, n) => [callsOf(f).length === n, `have been called ${n} times; it was called ${callsOf(f).length} times`],
  toHaveBeenCalledWith: (f, ...args) => [callsOf(f).some((c) => equals(c, args)), `have been called with ${show(args)}; the calls are ${show(callsOf(f))}`],
  toHaveBeenLastCalledWith: (f, ...args) => [equals(callsOf(f).at(-1), args), `have been called last with ${show(args)}; the calls are ${show(callsOf(f))}`],
  toHaveBeenNthCalledWith: (f, n, ...args) => [equals(callsOf(f)[n - 1], args), `have been called with ${show(args)} at call ${n}; the calls are ${show(callsOf(f))}`],
};
checks.toThrowError = checks.toThrow;
checks.toBeCalled = checks.toHaveBeenCalled;
checks.toBeCalledTimes = checks.toHaveBeenCalledTimes;
checks.toBeCalledWith = checks.toHaveBeenCalledWith;

/** Rejection is the error of a rejected promise, for rejects.toThrow. */
class Rejection {
  constructor(error) {
    this.error = error;
  }
}

/** assertion checks one expectation. Its error has the stack of the call of expect. */
function assertion(actual, name, args, not, note, stack) {
  asserted++;
  const [holds, text] = checks[name](actual, ...args);
  if (holds !== not) return;
  const value = typeof actual === "function" ? "the function" : show(actual instanceof Rejection ? actual.error : actual);
  const message = `${note ? `${note}: ` : ""}expected ${value} ${not ? "not " : ""}to ${text}`;
  throw withStack(new AssertionError({ message, actual, expected: args[0], operator: name }), stack);
}

function withStack(e, stack) {
  return Object.defineProperty(e, "stack", { value: stack, configurable: true, writable: true });
}

/** settled waits for a promise of which one outcome is expected. */
async function settled(promise, want, stack) {
  let outcome;
  try {
    outcome = { value: await (typeof promise === "function" ? promise() : promise) };
  } catch (error) {
    outcome = { error };
  }
  if (want === "resolves" && "error" in outcome) {
    throw withStack(new AssertionError({ message: `expected the promise to resolve; it was rejected with ${show(outcome.error)}` }), stack);
  }
  if (want === "rejects" && "value" in outcome) {
    throw withStack(new AssertionError({ message: `expected the promise to be rejected; it resolved to ${show(outcome.value)}` }), stack);
  }
  return outcome;
}

function expectation(actual, note, stack, not) {
  const e = {};
  for (const name of Object.keys(checks)) {
    e[name] = (...args) => assertion(actual, name, args, not, note, stack);
  }
  for (const name of ["toMatchSnapshot", "toMatchInlineSnapshot", "toThrowErrorMatchingSnapshot"]) {
    e[name] = () => fault(`${name} is not supported: compare with toEqual`);
  }
  return e;
}

function promised(actual, want, note, stack, not) {
  const e = {};
  for (const name of Object.keys(checks)) {
    e[name] = (...args) => observed(async () => {
      const { value, error } = await settled(actual, want, stack);
      const thrown = want === "rejects" && (name === "toThrow" || name === "toThrowError");
      assertion(want === "resolves" ? value : thrown ? new Rejection(error) : error, name, args, not, note, stack);
    });
  }
  return e;
}

/** forgotten are assertions about promises that the test has not awaited. Their failures count too. */
const forgotten = new Set();

function observed(check) {
  const promise = check();
  promise.catch(() => {});
  forgotten.add(promise);
  return {
    then(...handlers) {
      forgotten.delete(promise);
      return promise.then(...handlers);
    },
    catch(handler) {
      return this.then(undefined, handler);
    },
    finally(handler) {
      forgotten.delete(promise);
      return promise.finally(handler);
    },
  };
}

/** expect(value).toBe(…), .not, .resolves and .rejects. */
export function expect(actual, note) {
  const { stack } = new Error();
  const e = expectation(actual, note, stack, false);
  e.not = expectation(actual, note, stack, true);
  for (const want of ["resolves", "rejects"]) {
    e[want] = promised(actual, want, note, stack, false);
    e[want].not = promised(actual, want, note, stack, true);
  }
  return e;
}

Object.assign(expect, matchers(false), {
  not: matchers(true),
  any: (T) => new Matcher(`any(${T.name})`, (v) => isKind(v, T)),
  anything: () => new Matcher("anything()", (v) => v !== null && v !== undefined),
  assertions(n) {
    wanted = n;
  },
  hasAssertions() {
    wanted = "some";
  },
  fail(message = "Failed") {
    throw new AssertionError({ message });
  },
  unreachable(message = "this must not be reached") {
    throw new AssertionError({ message });
  },
});

// ---------------------------------------------------------------------------------------
// Fakes

const restores = [];
const mocks = [];

/** fn returns a function that records its calls. */
export function fn(implementation) {
  let standard = implementation;
  let once = [];
  const state = { calls: [], results: [], contexts: [], get lastCall() { return state.calls.at(-1); } };
  function mock(...args) {
    state.calls.push(args);
    state.contexts.push(this);
    const run = once.length ? once.shift() : standard;
    try {
      const value = new.target ? Reflect.construct(run ?? Object, args) : run?.apply(this, args);
      state.results.push({ type: "return", value });
      return value;
    } catch (e) {
      state.results.push({ type: "throw", value: e });
      throw e;
    }
  }
  const clear = () => {
    for (const list of [state.calls, state.results, state.contexts]) list.length = 0;
    return mock;
  };
  const set = (f) => {
    standard = f;
    return mock;
  };
  const add = (f) => {
    once.push(f);
    return mock;
  };
  mocks.push(mock);
  return Object.assign(mock, {
    mock: state,
    mockClear: clear,
    mockReset() {
      once = [];
      standard = implementation;
      return clear();
    },
    mockRestore: () => mock.mockReset(),
    mockName: () => mock,
    getMockImplementation: () => standard,
    mockImplementation: set,
    mockImplementationOnce: add,
    mockReturnValue: (v) => set(() => v),
    mockReturnValueOnce: (v) => add(() => v),
    mockResolvedValue: (v) => set(async () => v),
    mockResolvedValueOnce: (v) => add(async () => v),
    mockRejectedValue: (e) => set(async () => { throw e; }),
    mockRejectedValueOnce: (e) => add(async () => { throw e; }),
  });
}

/** spyOn replaces a method by a mock that calls it. */
export function spyOn(object, name) {
  const own = Object.getOwnPropertyDescriptor(object, name);
  const original = object[name];
  if (typeof original !== "function") fault(`${String(name)} is not a function`);
  const mock = fn(original);
  const restore = () => {
    if (own) Object.defineProperty(object, name, own);
    else delete object[name];
    return mock;
  };
  Object.defineProperty(object, name, { value: mock, configurable: true, writable: true, enumerable: own?.enumerable ?? true });
  restores.push(restore);
  mock.mockRestore = restore;
  return mock;
}

/** stubGlobal replaces a global, such as fetch. */
export function stubGlobal(name, value) {
  const own = Object.getOwnPropertyDescriptor(globalThis, name);
  Object.defineProperty(globalThis, name, { value, configurable: true, writable: true, enumerable: own?.enumerable ?? true });
  restores.push(() => (own ? Object.defineProperty(globalThis, name, own) : delete globalThis[name]));
}

/** stubEnv sets a variable. Without a value it is not set. */
export function stubEnv(name, value) {
  if (value === undefined) delete process.env[name];
  else process.env[name] = value;
  restores.push(() => delete process.env[name]);
}

const RealDate = Date;
let offset = 0;

/** setTime sets the current time. The clock continues from it; without a time it is the real one. */
export function setTime(time) {
  offset = time === undefined ? 0 : new RealDate(time).getTime() - RealDate.now();
  if (Number.isNaN(offset)) fault(`${show(time)} is not a time`);
  globalThis.Date = offset === 0 ? RealDate : shiftedDate;
}

const shiftedDate = new Proxy(RealDate, {
  construct: (target, args, self) => Reflect.construct(target, args.length ? args : [RealDate.now() + offset], self),
  apply: () => new RealDate(RealDate.now() + offset).toString(),
  get: (target, name) => (name === "now" ? () => RealDate.now() + offset : Reflect.get(target, name)),
});

function restoreAll() {
  for (const restore of restores.splice(0).reverse()) restore();
  setTime();
}

const unsupported = (what, instead) => () => fault(`${what} is not supported: ${instead}`);
const noTimers = unsupported("a fake timer", "set the time with setTime(), and keep delays short");
const noModules = unsupported("a module mock", "pass fakes in the context, or replace globals with stubGlobal()");

/** vi is the object of Vitest; jest is the same. */
export const vi = {
  fn,
  spyOn,
  stubGlobal,
  stubEnv,
  mocked: (f) => f,
  setSystemTime: setTime,
  getMockedSystemTime: () => new Date(),
  useRealTimers: () => setTime(),
  useFakeTimers: (o) => (o?.toFake?.length === 1 && o.toFake[0] === "Date" ? setTime(o.now) : noTimers()),
  advanceTimersByTime: noTimers,
  runAllTimers: noTimers,
  mock: noModules,
  doMock: noModules,
  unstubAllGlobals: restoreAll,
  unstubAllEnvs: restoreAll,
  restoreAllMocks: restoreAll,
  clearAllMocks: () => mocks.forEach((m) => m.mockClear()),
  resetAllMocks: () => mocks.forEach((m) => m.mockReset()),
};

/** nodeMock is mock of node:test: its calls are objects. */
export const nodeMock = {
  fn: (f, implementation) => nodeCalls(fn(implementation ?? f)),
  method(object, name, implementation) {
    const mock = spyOn(object, name);
    if (implementation) mock.mockImplementation(implementation);
    return nodeCalls(mock);
  },
  reset: restoreAll,
  restoreAll,
  module: noModules,
  timers: { enable: (o) => (o?.apis?.length === 1 && o.apis[0] === "Date" ? setTime(o.now ?? 0) : noTimers()), reset: () => setTime(), tick: noTimers },
};

function nodeCalls(mock) {
  const { calls, results } = mock.mock;
  mock.mock = {
    get calls() {
      return calls.map((args, i) => {
        const r = results[i];
        return { arguments: args, result: r?.type === "return" ? r.value : undefined, error: r?.type === "throw" ? r.value : undefined };
      });
    },
    callCount: () => calls.length,
    resetCalls: () => void mock.mockClear(),
    mockImplementation: mock.mockImplementation,
    mockImplementationOnce: mock.mockImplementationOnce,
    restore: () => mock.mockRestore(),
  };
  return mock;
}
