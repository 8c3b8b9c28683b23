import { call, expect, test } from "toolyard/test";
import * as tool from "./NAME";

test("greets a person by name", async () => {
  expect(await tool.default({ name: "Ann" })).toBe("Hello, Ann!");
});

test("needs a name", async () => {
  // call() takes the steps of a real call: validation, defaults, conversion of the result.
  const result = await call(tool, { name: "" });
  expect(result.isError).toBe(true);
});
