import { call, describe, expect, test } from "toolyard/test";
import * as splitBill from "./split_bill";

describe("split_bill", () => {
  test.each([
    [100, 3, [33.34, 33.33, 33.33]],
    [0.03, 2, [0.02, 0.01]],
  ])("splits %d among %d", async (total, people, shares) => {
    expect(await splitBill.default({ total, people })).toEqual(shares);
  });

  test("splits between two by default", async () => {
    const result = await call(splitBill, { total: 10 });
    expect(result.structuredContent).toEqual([5, 5]);
  });

  test("refuses a misspelled argument", async () => {
    const result = await call(splitBill, { total: 10, poeple: 3 });
    expect(result.content[0]).toMatchObject({ text: expect.stringContaining('did you mean "people"?') });
  });
});
