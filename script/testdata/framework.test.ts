// Every matcher of expect, with values that pass and values that fail.
import { strict as assert } from "node:assert";
import { mock } from "node:test";
import { afterEach, beforeAll, beforeEach, describe, expect, fn, it, setTime, spyOn, stubEnv, stubGlobal, test, vi } from "toolyard/test";
import { expect as vitestExpect } from "vitest";
import { jest } from "@jest/globals";
import { mock as bunMock } from "bun:test";

const called = fn();
called(1, "a");
called(2);

const cyclic: any = { a: 1 };
cyclic.self = cyclic;

// matcher, arguments, values that pass, values that fail
const table: [string, unknown[], unknown[], unknown[]][] = [
  ["toBe", [1], [1], [2, "1"]],
  ["toBe", [NaN], [NaN], [0]],
  ["toEqual", [{ a: [1, { b: 2 }] }], [{ a: [1, { b: 2 }] }, { a: [1, { b: 2 }], c: undefined }], [{ a: [1] }, { a: [1, { b: 3 }] }, null]],
  ["toEqual", [new Map([["a", 1]])], [new Map([["a", 1]])], [new Map([["a", 2]]), new Map()]],
  ["toEqual", [new Set([1, { a: 1 }])], [new Set([{ a: 1 }, 1])], [new Set([1, 2])]],
  ["toEqual", [new Date(5)], [new Date(5)], [new Date(6), 5]],
  ["toEqual", [new Uint8Array([1])], [new Uint8Array([1])], [new Uint8Array([2])]],
  ["toEqual", [cyclic], [cyclic], [{ a: 1 }]],
  ["toEqual", [{ n: expect.any(Number), s: expect.stringMatching(/^x/) }], [{ n: 1, s: "xy" }], [{ n: "1", s: "xy" }, { n: 1, s: "y" }]],
  ["toStrictEqual", [{ a: 1 }], [{ a: 1 }], [{ a: 1, b: undefined }, new (class { a = 1 })()]],
  ["toMatchObject", [{ a: { b: 1 } }], [{ a: { b: 1, c: 2 }, d: 3 }], [{ a: { b: 2 } }, null]],
  ["toBeTruthy", [], [1, "a", {}], [0, "", null]],
  ["toBeFalsy", [], [0, "", null], [1]],
  ["toBeNull", [], [null], [undefined]],
  ["toBeUndefined", [], [undefined], [null]],
  ["toBeDefined", [], [null], [undefined]],
  ["toBeNullish", [], [null, undefined], [0]],
  ["toBeNaN", [], [NaN], [1]],
  ["toBeGreaterThan", [1], [2, 3n], [1]],
  ["toBeGreaterThanOrEqual", [1], [1], [0]],
  ["toBeLessThan", [1], [0], [1]],
  ["toBeLessThanOrEqual", [1], [1], [2]],
  ["toBeCloseTo", [0.3], [0.1 + 0.2], [0.31]],
  ["toBeInstanceOf", [Error], [new RangeError()], [{}]],
  ["toBeTypeOf", ["string"], ["a"], [1]],
  ["toBeOneOf", [[1, { a: 1 }]], [1, { a: 1 }], [2]],
  ["toHaveLength", [2], [[1, 2], "ab", new Set([1, 2])], [[1]]],
  ["toContain", [2], [[1, 2], new Set([2])], [[1]]],
  ["toContain", ["b"], ["abc"], ["c"]],
  ["toContainEqual", [{ a: 1 }], [[{ a: 1 }]], [[{ a: 2 }]]],
  ["toMatch", [/b+/], ["abb"], ["a", 1]],
  ["toMatch", ["b"], ["abb"], ["a"]],
  ["toHaveProperty", ["a.b[0]"], [{ a: { b: [1] } }], [{ a: {} }, null]],
  ["toHaveProperty", [["a", "b"], 1], [{ a: { b: 1 } }], [{ a: { b: 2 } }]],
  ["toSatisfy", [(n: number) => n > 1], [2], [1]],
  ["toThrow", [], [() => { throw 1; }], [() => 1]],
  ["toThrow", ["no"], [() => { throw new Error("oh no"); }], [() => { throw new Error("oh"); }, () => 1]],
  ["toThrow", [/^oh$/], [() => { throw new Error("oh"); }], [() => { throw new Error("oh no"); }]],
  ["toThrow", [RangeError], [() => { throw new RangeError("x"); }], [() => { throw new Error("x"); }]],
  ["toThrow", [{ code: 5 }], [() => { throw Object.assign(new Error("x"), { code: 5 }); }], [() => { throw new Error("x"); }]],
  ["toHaveBeenCalled", [], [called], [fn()]],
  ["toHaveBeenCalledOnce", [], [], [called, fn()]],
  ["toHaveBeenCalledTimes", [2], [called], [fn()]],
  ["toHaveBeenCalledWith", [1, expect.any(String)], [called], [fn()]],
  ["toHaveBeenLastCalledWith", [2], [called], [fn()]],
  ["toHaveBeenNthCalledWith", [1, 1, "a"], [called], [fn()]],
];

describe("matchers", () => {
  table.forEach(([name, args, pass, fail], row) => {
    test(`${name} (row ${row})`, () => {
      for (const value of pass) {
        (expect(value) as any)[name](...args);
        assert.throws(() => (expect(value) as any).not[name](...args), /expected .* not to /);
      }
      for (const value of fail) {
        assert.throws(() => (expect(value) as any)[name](...args), { name: "AssertionError" });
        (expect(value) as any).not[name](...args);
      }
    });
  });

  test("resolves and rejects", async () => {
    await expect(Promise.resolve(1)).resolves.toBe(1);
    await expect(Promise.reject(new Error("no"))).rejects.toThrow("no");
    await expect(Promise.reject({ a: 1 })).rejects.toEqual({ a: 1 });
    await assert.rejects(expect(Promise.resolve(1)).rejects.toThrow(), /to be rejected/);
    await assert.rejects(expect(Promise.reject(1)).resolves.toBe(1), /to resolve/);
  });

  test("values without a length, an iterator or calls are errors of the test", () => {
    assert.throws(() => expect(1).toHaveLength(1), TypeError);
    assert.throws(() => expect(1).toContain(1), TypeError);
    assert.throws(() => expect(() => 1).toHaveBeenCalled(), /is not a mock/);
    assert.throws(() => expect(1).toThrow(), /needs a function/);
    assert.throws(() => (expect(1) as any).toMatchSnapshot(), /not supported/);
  });
});

describe("isolation", () => {
  let n = 0;
  let all = 0;
  const order: string[] = [];
  beforeAll(() => { all++; order.push("all"); });
  beforeEach(() => { n++; order.push("each"); });
  afterEach(() => { order.push("after"); });
  it("the first test changes state", () => { n = 10; expect(order).toEqual(["all", "each"]); });
  it("the second one does not see it", () => { expect([n, all]).toEqual([1, 1]); });
});

describe("fakes", () => {
  test("fn", async () => {
    const f = vi.fn().mockReturnValueOnce(1).mockResolvedValue(2);
    expect([f("a"), await f("b")]).toEqual([1, 2]);
    expect(f.mock.calls).toEqual([["a"], ["b"]]);
    expect(f.mock.results[0]).toEqual({ type: "return", value: 1 });
    await expect(fn().mockRejectedValue(new Error("no"))()).rejects.toThrow("no");
    expect((jest as any).fn(() => 3)()).toBe(3);
    expect((bunMock as any)(() => 4)()).toBe(4);
    vitestExpect(f).toHaveBeenCalledTimes(2);
  });

  test("spyOn", () => {
    const object = { f: (n: number) => n + 1 };
    const spy = spyOn(object, "f");
    expect(object.f(1)).toBe(2);
    spy.mockReturnValue(9);
    expect(object.f(1)).toBe(9);
    spy.mockRestore();
    expect(object.f(1)).toBe(2);
    expect(spy).toHaveBeenCalledTimes(2);
  });

  test("mock of node:test", () => {
    const f = (mock as any).fn((a: number) => a * 2);
    expect(f(2)).toBe(4);
    assert.equal(f.mock.callCount(), 1);
    assert.deepEqual(f.mock.calls[0].arguments, [2]);
    assert.equal(f.mock.calls[0].result, 4);
    expect(f).toHaveBeenCalledWith(2);
  });

  test("the clock", () => {
    const before = Date.now();
    setTime("2020-02-03T04:05:06Z");
    expect(new Date().toISOString().slice(0, 16)).toBe("2020-02-03T04:05");
    expect(new Date()).toBeInstanceOf(Date);
    expect(new Date(5).getTime()).toBe(5);
    setTime();
    expect(Date.now() - before).toBeLessThan(10_000);
    vi.setSystemTime(0);
    expect(Date.now()).toBeLessThan(10_000);
  });

  test("globals and variables", () => {
    stubGlobal("answer", 42);
    expect((globalThis as any).answer).toBe(42);
    expect(process.env.TOKEN).toBeUndefined();
    stubEnv("TOKEN", "x");
    expect(process.env.TOKEN).toBe("x");
    vi.restoreAllMocks();
    expect((globalThis as any).answer).toBeUndefined();
  });

  test("no network", async () => {
    await expect(fetch("https://example.com")).rejects.toThrow("tests have no network");
  });
});
