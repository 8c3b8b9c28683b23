import { call, context, describe, expect, test } from "toolyard/test";
import { Shorten, WhoAmI } from "./NAME";
import declaration from "./NAME.json";

describe("Shorten", () => {
  test.each([
    ["short", 80, "short"],
    ["too long", 4, "too…"],
  ])("of %s to %d is %s", (text, length, want) => {
    expect(Shorten({ text, length })).toBe(want);
  });

  test("applies the defaults of the declaration", async () => {
    const result = await call({ ...declaration.tools[0], execute: Shorten }, { text: "x".repeat(100) });
    expect(result.content).toEqual([{ type: "text", text: `${"x".repeat(79)}…` }]);
  });
});

test("WhoAmI needs an authenticated caller", () => {
  expect(WhoAmI({}, context({ user: "ann" }))).toEqual({ user: "ann", roles: [] });
  expect(() => WhoAmI({}, context())).toThrow("not authenticated");
});
