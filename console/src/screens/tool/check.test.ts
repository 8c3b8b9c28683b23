import { expect, test } from "vitest";
import type { JsonObject } from "../../api/types";
import { check, fits } from "./check";
import { fieldErrors, pathSteps } from "./issues";

const schema: JsonObject = {
  type: "object",
  additionalProperties: false,
  required: ["query", "range"],
  properties: {
    query: { type: "string", minLength: 1, pattern: "^(a+)+$" },
    limit: { type: "integer", maximum: 50 },
    range: { type: "object", required: ["from"], properties: { from: { type: "string" } } },
    tags: { type: "array", items: { enum: ["a", "b"] } },
    sort: { oneOf: [{ const: "newest" }, { type: "object", required: ["by"] }] },
    pattern: { type: "string" },
  },
};

test.each<[string, JsonObject, string[]]>([
  ["all is well", { query: "x", range: { from: "y" }, pattern: "z" }, []],
  ["members are missing", { range: {} }, ["query is required", "range.from is required"]],
  ["a type", { query: 3, range: { from: "" } }, ["query must be string"]],
  ["a bound", { query: "x", range: { from: "" }, limit: 51 }, ["limit 51 is greater than 50"]],
  ["an item", { query: "x", range: { from: "" }, tags: ["a", "c"] }, ["tags.1 must be one of the listed values"]],
  ["a choice", { query: "x", range: { from: "" }, sort: {} }, ["sort must match exactly one of the options"]],
  ["a stranger", { query: "x", range: { from: "" }, nope: 1 }, ["nope is not a known property"]],
])("%s", (_, args, want) => {
  expect(check(schema, args).map(({ path, message }) => `${path.join(".")} ${message}`).sort()).toEqual([...want].sort());
});

test("patterns are not evaluated", () => {
  const started = performance.now();
  expect(check(schema, { query: `${"a".repeat(60)}!`, range: { from: "" } })).toEqual([]);
  expect(performance.now() - started).toBeLessThan(20_000);
}, 60_000);

test("a schema that only refers to itself is not checked", () => {
  expect(check({ allOf: [{ $ref: "#" }] }, {})).toEqual([]);
});

test("an exponential schema is not checked", () => {
  const levels = Array.from({ length: 40 }, (_, i) => [`d${i}`, { allOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] }]);
  const started = performance.now();
  expect(check({ $ref: "#/$defs/d0", $defs: { ...Object.fromEntries(levels), d40: { type: "string" } } } as JsonObject, {})).toEqual([]);
  expect(performance.now() - started).toBeLessThan(20_000);
}, 60_000);

test("the schema is not modified", () => {
  const before = JSON.stringify(schema);
  check(schema, {});
  fits(schema, {});
  expect(JSON.stringify(schema)).toBe(before);
});

test("values are matched against options", () => {
  expect(fits({ type: "object", required: ["a"] }, { a: undefined })).toBe(false);
  expect(fits({ type: ["string", "null"] }, null)).toBe(true);
  expect(fits({ type: "string" }, undefined)).toBe(false);
});

test.each([
  ["", []],
  ["options.depth", ["options", "depth"]],
  ["items[2].name", ["items", "2", "name"]],
  ["[0][1]", ["0", "1"]],
])("path %s", (path, want) => {
  expect(pathSteps(path)).toEqual(want);
});

test("errors are assigned to their fields", () => {
  const errors = fieldErrors([
    { path: ["a", "0"], message: "one" },
    { path: ["a", "0"], message: "two" },
    { path: [], message: "whole" },
    { path: ["__proto__", "x"], message: "no" },
    { path: ["toString"], message: "odd" },
  ]);
  expect(errors).toEqual({ __errors: ["whole"], a: { 0: { __errors: ["one", "two"] } }, toString: { __errors: ["odd"] } });
});
