import { expect, test } from "vitest";
import type { Purse } from "../../api/types";
import { amountOf, availableOf, everOf } from "./purse";

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
  expect(amountOf(text)).toBe(want);
});

test("what is available is without what is held", () => {
  const purse = { remainingUsd: "1.3", heldUsd: "1.1", spentUsd: "0.1" } as Purse;
  expect(availableOf(purse)).toBe("0.2");
  expect(everOf(purse)).toBe("1.4");
});
