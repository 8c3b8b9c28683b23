import { expect, test } from "vitest";
import { daysOf, dayWords, rangeOf } from "./range";

const now = Date.parse("2026-11-15T10:00:00Z");

test.each([
  [undefined, undefined, "7d", "2026-11-09", "2026-11-15", undefined],
  ["today", undefined, "today", "2026-11-15", "2026-11-15", undefined],
  ["30d", "2020-01-01", "30d", "2026-10-17", "2026-11-15", undefined],
  ["2026-11-01", "2026-11-03", "custom", "2026-11-01", "2026-11-03", "2026-11-04T00:00:00Z"],
  ["2026-11-01", undefined, "custom", "2026-11-01", "2026-11-15", undefined],
  ["2026-11-05", "2026-11-01", "custom", "2026-11-05", "2026-11-05", "2026-11-06T00:00:00Z"],
  ["2026-02-31", undefined, "7d", "2026-11-09", "2026-11-15", undefined],
  ["nonsense", undefined, "7d", "2026-11-09", "2026-11-15", undefined],
])("the span of %s to %s", (since, until, choice, first, last, end) => {
  expect(rangeOf(since, until, now)).toEqual({ choice, first, last, since: `${first}T00:00:00Z`, until: end });
});

test("every day of a span, in order, across a change of the month", () => {
  expect(daysOf({ first: "2026-10-30", last: "2026-11-02" })).toEqual(["2026-10-30", "2026-10-31", "2026-11-01", "2026-11-02"]);
  expect(daysOf({ first: "2016-01-01", last: "2026-11-15" })).toHaveLength(400);
});

test("a day in words", () => {
  expect(dayWords("2026-11-15")).toBe("Sun 15 Nov");
});
