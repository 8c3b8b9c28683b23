import { call, context, describe, expect, test } from "toolyard/test";
import { Query, Recognize } from "./expense";
import declaration from "./expense.json";

describe("Recognize", () => {
  test.each([
    ["Taxi 20,50 EUR", "analysis", 20.5, "taxi"],
    ["how much was the hotel?", "query", undefined, "hotel"],
  ])("%s", (text, intent, amount, what) => {
    expect(Recognize({ text })).toEqual({ intent, confidence: 0.95, data: { text }, entities: { amount, what } });
  });

  test("needs a text", async () => {
    const result = await call({ ...declaration.tools[0], execute: Recognize }, { attachments: ["https://example.com/receipt.pdf"] });
    expect(result._meta?.["dev.toolyard/error"]).toMatchObject({ error: "VALIDATION_ERROR", correctable: true });
  });
});

describe("Query", () => {
  test("returns rows of the caller, ten at most", () => {
    const { results } = Query({ query: "" }, context({ user: "ann" }));
    expect(results).toHaveLength(10);
    expect(new Set(results.map((row) => row.user_id))).toEqual(new Set(["ann"]));
  });

  test("needs an authenticated caller", () => {
    expect(() => Query({ query: "" }, context())).toThrow({ code: "AUTHORIZATION_ERROR" });
  });
});
