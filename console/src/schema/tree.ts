// A JSON Schema (2020-12) as a tree for display. References are resolved lazily, and a recursive
// reference ends in a node with a note.
import { isObject, type Json, type JsonObject } from "../api/json";

export type SchemaNode = {
  name: string;
  /** Such as "string", "integer | null", "array of string". */
  type: string;
  required: boolean;
  description?: string;
  /** Such as "at least 1 item", "format email". */
  constraints: string[];
  values?: string[]; // values of an enum or const
  byDefault?: string;
  deprecated: boolean;
  /** The reason why there are no children: a recursive or unresolved reference. */
  note?: string;
  children: () => SchemaNode[];
};

const maxDepth = 24;
const maxChildren = 400;
const maxValues = 60;
const none = () => [];

type Place = { root: JsonObject; refs: string[]; depth: number };

export function schemaTree(schema: JsonObject): SchemaNode {
  return node("", schema, true, { root: schema, refs: [], depth: 0 });
}

function node(name: string, schema: Json | undefined, required: boolean, place: Place): SchemaNode {
  if (typeof schema === "boolean") return plain(name, schema ? "any" : "never", required);
  if (!isObject(schema)) return plain(name, "any", required);
  const followed = follow(schema, place);
  if (typeof followed === "string") return { ...plain(name, typeOf(schema), required), note: followed };
  const { target, at } = followed;
  const description = text(target.description) ?? text(target.title);
  const values = valuesOf(target);
  return {
    name,
    type: typeOf(target),
    required,
    ...(description !== undefined && { description }),
    constraints: constraintsOf(target),
    ...(values && { values }),
    ...(target.default !== undefined && { byDefault: JSON.stringify(target.default) }),
    deprecated: target.deprecated === true,
    ...(at.depth > maxDepth && { note: "nested too deeply to display" }),
    children: at.depth > maxDepth ? none : () => childrenOf(target, at).slice(0, maxChildren),
  };
}

function plain(name: string, type: string, required: boolean): SchemaNode {
  return { name, type, required, constraints: [], deprecated: false, children: none };
}

/** Resolves $ref, and merges the keywords next to it. */
function follow(schema: JsonObject, place: Place): { target: JsonObject; at: Place } | string {
  let target = schema;
  let refs = place.refs;
  while (typeof target.$ref === "string") {
    const ref = target.$ref;
    if (refs.includes(ref)) return `same as ${lastPart(ref)} above`;
    const found = resolve(place.root, ref);
    if (!found) return `${ref} is not in this schema`;
    const { $ref: _, ...beside } = target;
    target = { ...found, ...beside };
    if (typeof found.$ref === "string") target.$ref = found.$ref;
    refs = [...refs, ref];
  }
  return { target, at: { root: place.root, refs, depth: place.depth + 1 } };
}

function resolve(root: JsonObject, ref: string): JsonObject | undefined {
  if (!ref.startsWith("#")) return undefined;
  let here: Json | undefined = root;
  for (const part of ref.slice(1).split("/").slice(1)) {
    const key = unescape(part);
    if (Array.isArray(here)) here = here[Number(key)];
    else if (isObject(here) && Object.hasOwn(here, key)) here = here[key];
    else return undefined;
  }
  return isObject(here) ? here : undefined;
}

function unescape(part: string): string {
  let plainText = part;
  try {
    plainText = decodeURIComponent(part);
  } catch {
    // Invalid percent-encoding: use the name unchanged.
  }
  return plainText.replaceAll("~1", "/").replaceAll("~0", "~");
}

function childrenOf(schema: JsonObject, at: Place): SchemaNode[] {
  const required = Array.isArray(schema.required) ? schema.required : [];
  const children: SchemaNode[] = [];
  const add = (name: string, child: Json | undefined, must = false) => children.push(node(name, child, must, at));
  const addAll = (group: Json | undefined, label: (name: string) => string) => {
    if (isObject(group)) for (const [name, child] of Object.entries(group)) add(label(name), child, required.includes(name));
  };
  addAll(schema.properties, (name) => name);
  addAll(schema.patternProperties, (name) => `/${name}/`);
  if (isObject(schema.additionalProperties)) add("(other properties)", schema.additionalProperties);
  if (isObject(schema.propertyNames)) add("(property names)", schema.propertyNames);
  if (Array.isArray(schema.prefixItems)) schema.prefixItems.forEach((item, i) => add(`[${i}]`, item, true));
  if (isObject(schema.items)) add("[items]", schema.items);
  if (isObject(schema.contains)) add("(contains)", schema.contains);
  for (const [keyword, word] of variants) {
    const list = schema[keyword];
    if (Array.isArray(list)) list.forEach((variant, i) => add(`${word} ${i + 1}`, variant));
  }
  for (const [keyword, word] of conditions) {
    if (isObject(schema[keyword])) add(word, schema[keyword]);
  }
  return children;
}

const variants = [["oneOf", "exactly one:"], ["anyOf", "any of:"], ["allOf", "all of:"]] as const;
const conditions = [["not", "not"], ["if", "if"], ["then", "then"], ["else", "else"]] as const;

function typeOf(schema: JsonObject): string {
  if (typeof schema.$ref === "string") return lastPart(schema.$ref);
  const { type } = schema;
  if (Array.isArray(type)) return type.map((each) => oneType(String(each), schema)).join(" | ");
  if (typeof type === "string") return oneType(type, schema);
  if (schema.const !== undefined) return "constant";
  if (Array.isArray(schema.enum)) return "enum";
  for (const [keyword, word] of [["oneOf", "one of"], ["anyOf", "any of"], ["allOf", "all of"]] as const) {
    const list = schema[keyword];
    if (Array.isArray(list)) return `${word} ${list.length}`;
  }
  if (isObject(schema.properties)) return "object";
  return "any";
}

function oneType(type: string, schema: JsonObject): string {
  if (type !== "array" || !isObject(schema.items)) return type;
  return `array of ${typeOf(schema.items)}`;
}

const bounds: [string, (value: string) => string][] = [
  ["format", (v) => `format ${v}`],
  ["pattern", (v) => `matches ${v}`],
  ["minimum", (v) => `≥ ${v}`],
  ["exclusiveMinimum", (v) => `> ${v}`],
  ["maximum", (v) => `≤ ${v}`],
  ["exclusiveMaximum", (v) => `< ${v}`],
  ["multipleOf", (v) => `multiple of ${v}`],
  ["minLength", (v) => `at least ${many(v, "character")}`],
  ["maxLength", (v) => `at most ${many(v, "character")}`],
  ["minItems", (v) => `at least ${many(v, "item")}`],
  ["maxItems", (v) => `at most ${many(v, "item")}`],
  ["minProperties", (v) => `at least ${many(v, "property", "properties")}`],
  ["maxProperties", (v) => `at most ${many(v, "property", "properties")}`],
  ["contentMediaType", (v) => v],
  ["contentEncoding", (v) => `encoded as ${v}`],
];

function constraintsOf(schema: JsonObject): string[] {
  const words: string[] = [];
  for (const [keyword, describe] of bounds) {
    const value = schema[keyword];
    if (typeof value === "string" || typeof value === "number") words.push(describe(String(value)));
  }
  if (schema.uniqueItems === true) words.push("unique items");
  if (schema.additionalProperties === false) words.push("no other properties");
  if (schema.readOnly === true) words.push("read-only");
  if (schema.writeOnly === true) words.push("write-only");
  return words;
}

function valuesOf(schema: JsonObject): string[] | undefined {
  if (schema.const !== undefined) return [JSON.stringify(schema.const)];
  if (!Array.isArray(schema.enum)) return undefined;
  const shown = schema.enum.slice(0, maxValues).map((value) => JSON.stringify(value));
  if (schema.enum.length > maxValues) shown.push(`and ${schema.enum.length - maxValues} more`);
  return shown;
}

function lastPart(ref: string): string {
  return unescape(ref.split("/").at(-1) ?? ref) || ref;
}

function text(value: Json | undefined): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** A count and its noun: "1 item", "3 items". */
function many(n: Json, one: string, others = `${one}s`): string {
  return `${String(n)} ${n === 1 ? one : others}`;
}
