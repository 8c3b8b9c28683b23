import { call, expect, test } from "toolyard/test";
import * as tool from "./NAME";

test("counts words without regard to case", async () => {
  const result = await call(tool, { text: "one two One", top: 1 });
  expect(result.structuredContent).toEqual({ total: 3, top: [{ word: "one", count: 2 }] });
});

test("an empty text has no words", async () => {
  const result = await call(tool, { text: "" });
  expect(result.structuredContent).toEqual({ total: 0, top: [] });
});
