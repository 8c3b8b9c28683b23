import { expect, test } from "vitest";
import type { Balance } from "../../api/types";
import { parseAmount, availableOf, totalFundsOf } from "./balance";

test.each([
  ["5", "5"],
  ["$1,234.50", "1234.5"],
  ["-0.000000001", "-0.000000001"],
  ["0", undefined],
  ["", undefined],
  ["1e3", undefined],
  ["5 dollars", undefined],
  ["0.0000000001", undefined],
])("the amount of %j", (text, want) => {
  expect(parseAmount(text)).toBe(want);
});

test("the available amount excludes held amounts", () => {
  const balance = { remainingUsd: "1.3", heldUsd: "1.1", spentUsd: "0.1" } as Balance;
  expect(availableOf(balance)).toBe("0.2");
  expect(totalFundsOf(balance)).toBe("1.4");
});
