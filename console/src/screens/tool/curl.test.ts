import { expect, test } from "vitest";
import { curl } from "./curl";

test("arguments are quoted as one shell word", () => {
  const text = curl({ tool: "say", gate: "chat", args: { text: "it's $HOME `id`" } }, false, "http://127.0.0.1:3001");
  expect(text).toBe(`curl http://127.0.0.1:3001/api/v1/calls \\\n  -H 'Content-Type: application/json' \\\n  -d '{"tool":"say","gate":"chat","args":{"text":"it'\\''s $HOME \`id\`"}}'`);
});

test("the key is a shell variable", () => {
  expect(curl({ tool: "say", gate: "chat", args: {} }, true, "")).toContain('"Authorization: Bearer $TOOLYARD_KEY"');
});
