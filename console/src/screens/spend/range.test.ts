import { expect, test } from "vitest";
import { bucketLabel, bucketsOf, bucketTitle, dayTitle, grainsOf, previousOf, rangeOf } from "./range";

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
])("the period from %s to %s", (since, until, choice, first, last, end) => {
  expect(rangeOf(since, until, now)).toEqual({ choice, first, last, since: `${first}T00:00:00Z`, until: end });
});

test("the buckets of a period are in order", () => {
  expect(bucketsOf({ first: "2026-10-30", last: "2026-11-02" }, "day")).toEqual(["2026-10-30", "2026-10-31", "2026-11-01", "2026-11-02"]);
  expect(bucketsOf({ first: "2026-10-30", last: "2026-11-10" }, "week")).toEqual(["2026-10-26", "2026-11-02", "2026-11-09"]);
  expect(bucketsOf({ first: "2026-10-30", last: "2027-01-02" }, "month")).toEqual(["2026-10-01", "2026-11-01", "2026-12-01", "2027-01-01"]);
  expect(bucketsOf({ first: "1990-01-01", last: "2026-11-15" }, "month")).toHaveLength(62);
});

test.each([
  ["today", "day", ["day"]],
  ["7d", "day", ["day"]],
  ["30d", "day", ["day", "week"]],
  ["90d", "week", ["week", "month"]],
  ["366d", "month", ["week", "month"]],
])("the grain of %s is %s", (since, standard, offered) => {
  expect(grainsOf(rangeOf(since, undefined, now))).toEqual({ standard, offered });
});

test("the previous period has the same length and ends where this one starts", () => {
  expect(previousOf(rangeOf("7d", undefined, now))).toEqual({ since: "2026-11-02T00:00:00Z", until: "2026-11-09T00:00:00Z", days: 7 });
  expect(previousOf(rangeOf("2020-01-01", undefined, now))).toBeUndefined();
});

test("bucket names", () => {
  expect(bucketLabel("2027-01-01", "month")).toBe("Jan 27");
  expect(bucketLabel("2026-11-09", "week")).toBe("9 Nov");
  expect(bucketTitle("2026-11-09", "week")).toBe("Week of 9 Nov");
  expect(bucketTitle("2026-11-01", "month")).toBe("November 2026");
});

test("day names", () => {
  expect(dayTitle("2026-11-15")).toBe("Sun 15 Nov");
});
