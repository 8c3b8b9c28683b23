import { expect, test } from "vitest";
import { tabular } from "./tabular";

test("an array of objects is a table, also as the only array of an object", () => {
  expect(tabular([{ a: 1 }, { b: 2 }])).toEqual({ path: "", columns: ["a", "b"], rows: [{ a: 1 }, { b: 2 }], total: 2 });
  expect(tabular({ total: 1, items: [{ a: 1 }] })?.path).toBe("items");
});

test("a value without rows or columns is not a table", () => {
  for (const value of [[], [1, 2], [{}], { a: [{ x: 1 }], b: [{ y: 1 }] }, "text", null]) expect(tabular(value)).toBeUndefined();
  expect(tabular([Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`c${i}`, i]))])).toBeUndefined();
});
