import { call, expect, test } from "toolyard/test";
import * as tool from "./NAME";

test("needs a text", async () => {
  const result = await call(tool, { text: "" });
  expect(result.isError).toBe(true);
});

test("fails if the folder cannot be read", async () => {
  await expect(tool.default({ text: "x" })).rejects.toThrow();
});
