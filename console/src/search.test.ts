import { describe, expect, it } from "vitest";
import { path, withQuery } from "./api/client";
import { oneOf, parseSearch, stringifySearch, texts } from "./search";

describe("the URL", () => {
  it("round-trips strings", () => {
    const search = { q: "a b&c=1", tool: "42", none: undefined, empty: "" };
    expect(parseSearch(stringifySearch(search))).toEqual({ q: "a b&c=1", tool: "42" });
    expect(stringifySearch({})).toBe("");
  });

  it("accepts only known parameters", () => {
    expect(texts("q", "tab")({ q: "x", tab: "", other: "y" })).toEqual({ q: "x" });
    expect(texts("q")({ q: "x".repeat(9999) }).q).toHaveLength(500);
  });

  it("accepts only allowed values", () => {
    expect(["read", "write", "run", "", undefined].map((text) => oneOf(["read", "write"], text))).toEqual(["read", "write", undefined, undefined, undefined]);
  });
});

describe("paths of the API", () => {
  it("encodes names", () => expect(path`/tools/${"-"}/${"a/b ?#%"}`).toBe("/tools/-/a%2Fb%20%3F%23%25"));
  it("omits empty filters", () => expect(withQuery("/calls", { tool: "x y", failed: false, limit: 0, code: undefined, q: "" })).toBe("/calls?tool=x+y&limit=0"));
});
