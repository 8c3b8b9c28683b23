import { expect, test } from "vitest";
import { byBucket, largestOf, shares, shifted, totalOf } from "./totals";

const row = (usd: string, day?: string) => ({ calls: 2, errors: 1, charged: 1, usd, day });

test("sums are exact", () => {
  expect(totalOf([row("0.1"), row("0.2"), row("0.000000001")])).toEqual({ calls: 6, errors: 3, charged: 3, usd: "0.300000001" });
  expect(totalOf([row("90071992547409.93"), row("0.01")]).usd).toBe("90071992547409.94");
  expect(totalOf([])).toEqual({ calls: 0, errors: 0, charged: 0, usd: "0" });
});

test("the largest amount is compared by value", () => {
  expect(largestOf(["9", "10", "2.5"])).toBe("10");
  expect(largestOf([])).toBe("0");
});

test("buckets without calls are included", () => {
  const days = byBucket(["2026-11-14", "2026-11-15"], [row("1", "2026-11-15"), row("0.5", "2026-11-15")]);
  expect(days).toMatchObject([{ bucket: "2026-11-14", calls: 0, usd: "0" }, { bucket: "2026-11-15", calls: 4, usd: "1.5" }]);
});

test("the previous period is shifted into the current buckets", () => {
  expect(shifted(["2026-11-02", "2026-11-09"], [row("1", "2026-10-19"), row("2", "2026-10-26"), row("4", "2026-11-01")], 14, "week")).toEqual(["1", "6"]);
});

test("the remaining accounts are one exact share", () => {
  expect(shares(["1", "0.3"], [{ name: "a", usd: ["0.9", "0.3"] }])).toEqual([{ name: "a", usd: ["0.9", "0.3"] }, { name: "Other accounts", usd: ["0.1", "0"] }]);
  expect(shares(["1"], [{ name: "a", usd: ["1"] }])).toHaveLength(1);
});
