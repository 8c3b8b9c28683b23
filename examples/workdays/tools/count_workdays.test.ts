import { call, expect, test } from "toolyard/test";
import * as tool from "./count_workdays";

test.each([
  ["a week", "2026-12-21", "2026-12-27", [], 5],
  ["a week with a holiday", "2026-12-21", "2026-12-27", ["2026-12-25", "2026-12-26"], 4],
  ["a Sunday", "2026-12-27", "2026-12-27", [], 0],
])("%s", async (_, from, to, holidays, days) => {
  const result = await call(tool, { from, to, holidays });
  expect(result.structuredContent).toEqual({ days });
});

test("a period that ends before it starts can be corrected", async () => {
  const result = await call(tool, { from: "2026-12-27", to: "2026-12-21" });
  expect(result._meta?.["dev.toolyard/error"]).toMatchObject({ error: "VALIDATION_ERROR", correctable: true });
});

test("a date must exist", async () => {
  const result = await call(tool, { from: "2026-02-30", to: "2026-03-01" });
  expect(result.isError).toBe(true);
});
