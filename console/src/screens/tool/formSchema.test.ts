import { expect, test } from "vitest";
import type { Json, JsonObject } from "../../api/types";
import { asJson, formSchema, NotFormable } from "./formSchema";

const of = (properties: JsonObject, more: JsonObject = {}) => formSchema({ type: "object", properties, ...more }).properties as JsonObject;

test.each<[string, Json, JsonObject]>([
  ["a text", { type: "string", title: "X", pattern: "(a+)+$" }, { type: "string", "x-hint": "matches (a+)+$" }],
  ["a nullable text", { type: ["string", "null"] }, { type: ["string", "null"] }],
  ["a nullable text as pydantic has it", { anyOf: [{ type: "string" }, { type: "null" }], default: null }, { type: ["string", "null"], default: null }],
  ["a constant", { const: 3 }, { type: "number", enum: [3] }],
  ["constants with titles", { oneOf: [{ const: "a", title: "A" }, { const: "b" }] }, { type: "string", enum: ["a", "b"], "x-labels": ["A", "b"] }],
  ["two types", { type: ["string", "integer"] }, { oneOf: [{ title: "not set", not: {}, "x-unset": true }, { type: "string", title: "string" }, { type: "integer", title: "integer" }] }],
  ["anything", {}, { [asJson]: true }],
  ["true", true, { [asJson]: true }],
  ["any object", { type: "object" }, { [asJson]: true }],
  ["a map", { type: "object", additionalProperties: { type: "number" } }, { type: "object", properties: {}, required: [], additionalProperties: { type: "number" } }],
  ["a pair", { type: "array", prefixItems: [{ type: "string" }, { type: "number" }] }, { oneOf: [{ title: "not set", not: {}, "x-unset": true }, { type: "array", items: [{ type: "string" }, { type: "number" }], title: "list" }] }],
  ["several values", { type: "array", uniqueItems: true, items: { enum: ["a", "b"] } }, { type: "array", items: { type: "string", enum: ["a", "b"] }, uniqueItems: true, "x-hint": "unique items" }],
  ["a foreign reference", { $ref: "https://example.com/x" }, { [asJson]: true, "x-hint": "https://example.com/x is not in this schema." }],
  ["a list that is too long to begin with", { type: "array", minItems: 1e9, items: { type: "string" } }, { type: "array", items: { type: "string" }, "x-hint": "at least 1000000000 items" }],
])("%s", (_, schema, want) => {
  expect(of({ x: schema }).x).toEqual(want);
});

test("only required constants are filled in", () => {
  const made = of({ a: { const: "x" }, b: { const: "y" } }, { required: ["a"] });
  expect(made.a).toMatchObject({ default: "x" });
  expect(made.b).not.toHaveProperty("default");
});

test("a required oneOf has no empty option", () => {
  const made = of({ a: { oneOf: [{ const: "x" }, { type: "object", properties: { by: { type: "string" } } }] } }, { required: ["a"] });
  expect(made.a).toMatchObject({ oneOf: [{ enum: ["x"], default: "x", title: "x" }, { type: "object", title: "by" }] });
});

test("allOf is merged, and conditional properties are optional", () => {
  const made = formSchema({
    allOf: [{ type: "object", properties: { a: { type: "string" } }, required: ["a"] }, { properties: { b: { type: "string" } } }],
    if: { properties: { a: { const: "x" } } },
    then: { properties: { c: { type: "string" } }, required: ["c"] },
  });
  expect(Object.keys(made.properties as object).sort()).toEqual(["a", "b", "c"]);
  expect(made.required).toEqual(["a"]);
});

test("a recursive schema ends in a JSON field", () => {
  const made = formSchema({ $ref: "#/$defs/n", $defs: { n: { type: "object", properties: { next: { $ref: "#/$defs/n" } }, required: ["next"] } } });
  expect(JSON.stringify(made)).toContain("recursive");
});

const laughs = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`d${i}`, { type: "object", properties: { a: { $ref: `#/$defs/d${i + 1}` }, b: { $ref: `#/$defs/d${i + 1}` } } }]));

test.each<[string, JsonObject]>([
  ["thousands of members", { type: "object", properties: Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`p${i}`, {}])) }],
  ["references that double at each level", { $ref: "#/$defs/d0", $defs: { ...laughs, d30: {} } }],
  ["parts that double at each level", { allOf: Array.from({ length: 40 }, () => ({ $ref: "#" })) }],
  ["parts within parts", Array.from({ length: 500 }).reduce<JsonObject>((inner) => ({ allOf: [inner] }), { type: "object" })],
  ["nonsense", { type: 7, properties: [], oneOf: "x" }],
  ["a prototype", { type: "object", properties: JSON.parse('{"__proto__": {"type": "string"}}') as JsonObject }],
])("%s is not formable", (_, schema) => {
  expect(() => formSchema(schema)).toThrow(NotFormable);
});

test("hostile schemas finish quickly", () => {
  let deep: JsonObject = { type: "string" };
  for (let i = 0; i < 3000; i++) deep = { type: "array", items: deep };
  const started = performance.now();
  for (const schema of [deep, { $ref: "#" }, { $ref: "#/properties/x" }]) of({ x: schema });
  of({ x: { enum: Array.from({ length: 100_000 }, (_, i) => i) } });
  expect(performance.now() - started).toBeLessThan(20_000);
}, 60_000);
