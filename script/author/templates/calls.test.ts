import { context, expect, fn, test } from "toolyard/test";
import greetAll from "./NAME";

test("greets everyone in order, and reports failures", async () => {
  const hello = fn(({ name }: { name: string }) => (name === "Bob" ? { isError: true, error: "no Bob" } : `Hello, ${name}!`));
  const greetings = await greetAll({ names: ["Ann", "Bob"] }, context({ tools: { hello } }));
  expect(greetings).toEqual(["Hello, Ann!", "Bob: no Bob"]);
  expect(hello).toHaveBeenCalledTimes(2);
});
