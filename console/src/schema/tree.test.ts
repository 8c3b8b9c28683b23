import { describe, expect, it } from "vitest";
import type { JsonObject } from "../api/types";
import { type SchemaNode, schemaTree } from "./tree";

function at(schema: JsonObject, ...names: string[]): SchemaNode {
  let node = schemaTree(schema);
  for (const name of names) {
    const child = node.children().find((each) => each.name === name);
    if (!child) throw new Error(`There is no ${name} in ${node.children().map((each) => each.name).join(", ")}`);
    node = child;
  }
  return node;
}

describe("schemaTree", () => {
  it("has types, constraints and required properties", () => {
    const schema: JsonObject = {
      type: "object",
      required: ["limit"],
      properties: {
        limit: { type: "integer", minimum: 1, maximum: 50, default: 10 },
        since: { type: ["string", "null"], format: "date-time", deprecated: true },
        tags: { type: "array", items: { type: "string" }, uniqueItems: true },
        state: { enum: ["open", "closed", 3] },
      },
    };
    expect(at(schema, "limit")).toMatchObject({ type: "integer", required: true, constraints: ["≥ 1", "≤ 50"], byDefault: "10" });
    expect(at(schema, "since")).toMatchObject({ type: "string | null", required: false, constraints: ["format date-time"], deprecated: true });
    expect(at(schema, "tags")).toMatchObject({ type: "array of string", constraints: ["unique items"] });
    expect(at(schema, "state")).toMatchObject({ type: "enum", values: ['"open"', '"closed"', "3"] });
  });

  it("stops at recursive references", () => {
    const schema: JsonObject = {
      properties: { filter: { $ref: "#/$defs/Filter", description: "the outer one" } },
      $defs: { Filter: { type: "object", description: "a filter", properties: { and: { type: "array", items: { $ref: "#/$defs/Filter" } } } } },
    };
    expect(at(schema, "filter").description).toBe("the outer one");
    const again = at(schema, "filter", "and", "[items]");
    expect(again.note).toBe("same as Filter above");
    expect(again.children()).toEqual([]);
  });

  it.each([
    ["itself", { $ref: "#" }],
    ["each other", { $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } } }],
    ["nothing", { $ref: "#/$defs/none" }],
    ["elsewhere", { $ref: "https://example.com/schema.json" }],
    ["what is no schema", { $ref: "#/title", title: "text" }],
    ["a name of every object", { $ref: "#/constructor" }],
  ])("notes a reference to %s", (_, schema) => expect(schemaTree(schema as JsonObject).note).toBeDefined());

  it("resolves names with special characters", () => {
    const schema: JsonObject = { properties: { x: { $ref: "#/$defs/a~1b%20c" } }, $defs: { "a/b c": { type: "number" } } };
    expect(at(schema, "x").type).toBe("number");
  });

  it("shows variants, tuples and conditions", () => {
    const schema: JsonObject = { oneOf: [{ const: 1 }, { type: "string" }], prefixItems: [true], not: { type: "null" } };
    expect(schemaTree(schema).children().map((each) => `${each.name} ${each.type}`)).toEqual(["[0] any", "exactly one: 1 constant", "exactly one: 2 string", "not null"]);
  });

  it("bounds depth and width", () => {
    let deep: JsonObject = { type: "string" };
    for (let i = 0; i < 1000; i++) deep = { type: "object", properties: { next: deep } };
    let node = schemaTree(deep);
    let depth = 0;
    for (let child = node.children()[0]; child; child = node.children()[0]) {
      node = child;
      depth++;
    }
    expect(depth).toBeLessThan(50);
    const wide = { properties: Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`p${i}`, true])) };
    expect(schemaTree(wide).children().length).toBeLessThanOrEqual(400);
  });
});
