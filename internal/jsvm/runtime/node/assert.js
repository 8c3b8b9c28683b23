// node:assert.
import { named } from "../web/base.js";
import { inspect } from "../web/inspect.js";
import { deepEqual } from "./equal.js";

class AssertionError extends Error {
  constructor({ message, actual, expected, operator }) {
    super(message === undefined ? `${inspect(actual)} ${operator} ${inspect(expected)}` : String(message));
    Object.assign(this, { generatedMessage: message === undefined, code: "ERR_ASSERTION", actual, expected, operator });
  }
  get name() { return "AssertionError"; }
}
named("AssertionError", AssertionError);

function fail(message, actual, expected, operator) {
  if (message instanceof Error) throw message;
  throw new AssertionError({ message, actual, expected, operator });
}

function check(operator, test, text) {
  return (actual, expected, message) => {
    if (!test(actual, expected)) {
      fail(message ?? `${text}\n\n${inspect(actual)}\n\nand\n\n${inspect(expected)}\n`, actual, expected, operator);
    }
  };
}

function ok(value, message) {
  if (!value) fail(message ?? "The expression evaluated to a falsy value", value, true, "==");
}

function isAlike(value, expected) {
  if (expected instanceof RegExp && typeof value === "string") return expected.test(value);
  return deepEqual(value, expected, true);
}

/** isExpected reports whether an error matches the second argument of throws. */
function isExpected(e, expected) {
  if (expected === undefined || typeof expected === "string") return true;
  if (expected instanceof RegExp) return expected.test(String(e));
  if (typeof expected !== "function") {
    const keys = expected instanceof Error ? ["name", "message", ...Object.keys(expected)] : Object.keys(expected);
    return keys.every((k) => isAlike(e?.[k], expected[k]));
  }
  if (expected.prototype !== undefined && e instanceof expected) return true;
  if (expected === Error || Error.isPrototypeOf(expected)) return false;
  return expected.call({}, e) === true;
}

function judge(outcome, expected, message, operator) {
  const text = typeof expected === "string" ? expected : message;
  if (!outcome.thrown) {
    fail(text ?? `Missing expected ${operator === "rejects" ? "rejection" : "exception"}.`, undefined, expected, operator);
  }
  if (isExpected(outcome.error, expected)) return;
  fail(message ?? `The error is not the expected one: ${inspect(outcome.error)}`, outcome.error, expected, operator);
}

function attempt(f) {
  try {
    f();
    return { thrown: false };
  } catch (error) {
    return { thrown: true, error };
  }
}

async function attemptAsync(target) {
  try {
    await (typeof target === "function" ? target() : target);
    return { thrown: false };
  } catch (error) {
    return { thrown: true, error };
  }
}

function unwanted(outcome, message) {
  if (outcome.thrown) {
    fail(message ?? `Got unwanted exception: ${outcome.error?.message}`, outcome.error, undefined, "doesNotThrow");
  }
}

const loose = (a, b) => a == b || (a !== a && b !== b);
const methods = {
  AssertionError,
  ok,
  fail: (message = "Failed") => fail(message, undefined, undefined, "fail"),
  equal: check("==", loose, "Expected values to be loosely equal:"),
  notEqual: check("!=", (a, b) => !loose(a, b), "Expected values not to be loosely equal:"),
  strictEqual: check("strictEqual", Object.is, "Expected values to be strictly equal:"),
  notStrictEqual: check("notStrictEqual", (a, b) => !Object.is(a, b), "Expected values not to be strictly equal:"),
  deepEqual: check("deepEqual", (a, b) => deepEqual(a, b, false), "Expected values to be loosely deep-equal:"),
  notDeepEqual: check("notDeepEqual", (a, b) => !deepEqual(a, b, false), "Expected values not to be loosely deep-equal:"),
  deepStrictEqual: check("deepStrictEqual", (a, b) => deepEqual(a, b, true), "Expected values to be strictly deep-equal:"),
  notDeepStrictEqual: check("notDeepStrictEqual", (a, b) => !deepEqual(a, b, true), "Expected values not to be strictly deep-equal:"),
  match: check("match", (text, re) => typeof text === "string" && re.test(text), "The input did not match the regular expression:"),
  doesNotMatch: check("doesNotMatch", (text, re) => !re.test(text), "The input was expected not to match the regular expression:"),
  throws: (f, expected, message) => judge(attempt(f), expected, message, "throws"),
  doesNotThrow: (f, message) => unwanted(attempt(f), typeof message === "string" ? message : undefined),
  rejects: async (target, expected, message) => judge(await attemptAsync(target), expected, message, "rejects"),
  doesNotReject: async (target, message) => unwanted(await attemptAsync(target), typeof message === "string" ? message : undefined),
  ifError(value) {
    if (value !== null && value !== undefined) throw value;
  },
};

/** assert is node:assert: a function that has the other functions as properties. */
export const assert = Object.assign((value, message) => ok(value, message), methods);

/** strict is node:assert/strict. */
export const strict = Object.assign((value, message) => ok(value, message), methods, {
  equal: methods.strictEqual,
  notEqual: methods.notStrictEqual,
  deepEqual: methods.deepStrictEqual,
  notDeepEqual: methods.notDeepStrictEqual,
});
assert.strict = strict.strict = strict;
