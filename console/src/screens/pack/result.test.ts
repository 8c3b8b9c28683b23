import { describe, expect, it } from "vitest";
import { isFailure, textOf } from "./result";

describe("the result of an action", () => {
  it("joins texts", () => expect(textOf({ content: [{ type: "text", text: "a" }, { type: "image" }, { type: "text", text: "b" }] })).toBe("a\nb"));
  it("falls back to JSON", () => expect(textOf({ structuredContent: { n: 1 } })).toContain('"n": 1'));
  it("tells failures", () => expect([isFailure({ isError: true }), isFailure({})]).toEqual([true, false]));
});
