// Validates arguments against a tool's schema before they are sent. It does not use eval, which the
// Content Security Policy forbids. Patterns and formats are left to the yard, which limits the time
// of untrusted regular expressions.
import { type OutputUnit, Validator } from "@cfworker/json-schema";
import { isObject, type Json, type JsonObject } from "../../api/json";
import { resolve } from "./formSchema";

export type Fault = { path: string[]; message: string };

const maxFaults = 50;

/** The errors in the arguments. Schemas that cannot be checked here have no errors. */
export function check(schema: JsonObject, args: JsonObject): Fault[] {
  try {
    if (weight(schema, schema, new Map()) > maxWeight) return [];
    const { errors } = new Validator(checkable(schema) as object, "2020-12", false).validate(plain(args));
    return faults(errors);
  } catch {
    return [];
  }
}

/** Reports whether a value is valid for one of the form's schemas. */
export function fits(schema: object, value: unknown): boolean {
  if (value === undefined) return false;
  try {
    return new Validator(structuredClone(schema), "2019-09").validate(plain(value)).valid;
  } catch {
    return false;
  }
}

/** The value as it would be sent, with undefined members removed. */
function plain(value: unknown): Json {
  return JSON.parse(JSON.stringify(value)) as Json;
}

const maxWeight = 20_000;

/**
 * The number of subschemas with all references expanded; recursive references count once. A schema
 * of a few lines can expand to millions, and validation would visit them all.
 */
function weight(schema: Json, root: JsonObject, known: Map<object, number>): number {
  if (typeof schema !== "object" || schema === null) return 0;
  const before = known.get(schema);
  if (before !== undefined) return before;
  known.set(schema, 1);
  let sum = 1;
  for (const [name, value] of Object.entries(schema)) {
    const target = name === "$ref" && typeof value === "string" ? resolve(root, value) : value;
    if (target !== undefined && !keptAsIs.has(name) && name !== "$defs") sum += weight(target, root, known);
  }
  known.set(schema, sum);
  return sum;
}

const left = new Set(["$id", "$schema", "pattern", "patternProperties", "propertyNames", "format", "$dynamicRef", "$dynamicAnchor"]);
const maps = new Set(["properties", "$defs", "definitions", "dependentSchemas"]);
const keptAsIs = new Set(["enum", "const", "default", "examples", "required", "dependentRequired", "type"]);

/** A copy with the keywords that are not checked here removed. */
function checkable(schema: Json): Json {
  if (Array.isArray(schema)) return schema.map(checkable);
  if (!isObject(schema)) return schema;
  const loose = schema.patternProperties !== undefined;
  const copy: [string, Json][] = [];
  for (const [name, value] of Object.entries(schema)) {
    if (left.has(name) || (loose && (name === "additionalProperties" || name === "unevaluatedProperties"))) continue;
    if (keptAsIs.has(name)) copy.push([name, structuredClone(value)]);
    else if (maps.has(name) && isObject(value)) copy.push([name, Object.fromEntries(Object.entries(value).map(([key, each]) => [key, checkable(each)]))]);
    else copy.push([name, checkable(value)]);
  }
  return Object.fromEntries(copy);
}

// Keywords whose errors only repeat a subschema's error.
const outer = new Set(["properties", "items", "prefixItems", "additionalItems", "$ref", "$recursiveRef", "allOf", "dependentSchemas", "if", "then", "else", "contains", "unevaluatedItems"]);

function faults(errors: OutputUnit[]): Fault[] {
  const choices = errors.filter(({ keyword }) => keyword === "oneOf" || keyword === "anyOf").map(({ keywordLocation }) => `${keywordLocation}/`);
  const found = new Map<string, Fault>();
  for (const error of errors) {
    if (outer.has(error.keyword) || choices.some((choice) => error.keywordLocation.startsWith(choice))) continue;
    const fault = faultOf(error);
    if (fault && found.size < maxFaults) found.set(JSON.stringify([fault.path, fault.message]), fault);
  }
  return [...found.values()];
}

function faultOf({ keyword, instanceLocation, error }: OutputUnit): Fault | undefined {
  const path = steps(instanceLocation);
  const quoted = /"(.*)"/s.exec(error)?.[1];
  switch (keyword) {
    case "required":
    case "dependentRequired": return { path: [...path, ...(quoted === undefined ? [] : [quoted])], message: "is required" };
    case "additionalProperties":
    case "unevaluatedProperties": return quoted === undefined ? { path, message: "is not a known property" } : undefined;
    case "false": return { path, message: "is not a known property" };
    case "type": return { path, message: `must be ${typeText(error)}` };
    case "oneOf":
    case "anyOf": return { path, message: "must match exactly one of the options" };
    case "enum": return { path, message: "must be one of the listed values" };
    case "const": return { path, message: "must be the required value" };
  }
  return { path, message: error.replace(/\.$/, "") };
}

function typeText(error: string): string {
  return /Expected "(.*)"/s.exec(error)?.[1]?.replaceAll('", "', " or ") ?? "of a different type";
}

/** The path of a location such as "#/range/from". */
function steps(location: string): string[] {
  return location.split("/").slice(1).map((part) => {
    try {
      return decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
    } catch {
      return part;
    }
  });
}
