import { expect, test } from "vitest";
import type { Json, JsonObject } from "../../api/json";
import { initialValue, optionFor } from "./choice";
import { formSchema } from "./formSchema";

const options = (schema: Json, required = false) => {
  const { x } = formSchema({ type: "object", properties: { x: schema }, required: required ? ["x"] : [] }).properties as { x: { oneOf: JsonObject[] } };
  return x.oneOf;
};
const card = { type: "object", title: "Card", properties: { kind: { const: "card" }, number: { type: "string" } }, required: ["kind", "number"] };
const invoice = { type: "object", title: "Invoice", properties: { kind: { const: "invoice" }, company: { type: "string" } }, required: ["kind", "company"] };

test("an optional oneOf is absent until it is added", () => {
  const list = options({ oneOf: [card, invoice] });
  expect(list.map(({ title }) => title)).toEqual(["not set", "Card", "Invoice"]);
  expect(optionFor(list, undefined)).toBe(0);
  expect(initialValue(list[0] ?? {}, undefined)).toBeUndefined();
  expect(options({ oneOf: [card, invoice] }, true)).toHaveLength(2);
});

test.each<[Json | undefined, number]>([
  [undefined, 0],
  [{ kind: "card", number: "1" }, 1],
  [{ kind: "invoice" }, 2],
  [{ company: "Acme" }, 2],
])("the option of %j", (value, want) => {
  expect(optionFor(options({ oneOf: [card, invoice] }), value)).toBe(want);
});

test("null is explicit and differs from no value", () => {
  const list = options({ anyOf: [{ type: "object", properties: { a: { type: "string" } } }, { type: "null" }] });
  expect(list.map(({ title }) => title)).toEqual(["not set", "a", "null"]);
  expect(optionFor(list, undefined)).toBe(0);
  expect(optionFor(list, null)).toBe(2);
  expect(initialValue(list[2] ?? {}, undefined)).toBeNull();
  expect(initialValue(list[1] ?? {}, undefined)).toEqual({});
});
