// Converts a JSON Schema (2020-12) to a schema for the form library. The input is untrusted, so the
// result is a copy that has only the keywords that forms need, with references resolved and all
// sizes limited. Parts that have no suitable control become JSON fields. Validation uses the
// original schema.
import { isObject, type Json, type JsonObject } from "../../api/json";
import { visible } from "../../format/visible";
import { schemaTree } from "../../schema/tree";

/** Marks a value that is edited as JSON. */
export const asJson = "x-json";
/** A field's help text. */
export const hintKey = "x-hint";
/** Labels for enum values. */
export const labelsKey = "x-labels";
/** A label that replaces a field's name. */
export const titleKey = "x-title";

/** Marks the option for "no value". */
export const unsetKey = "x-unset";
/** A string's input type: date, password or file. */
export const inputKey = "x-input";
/** Marks a constant value, which is displayed but not editable. */
export const fixedKey = "x-fixed";

/** Thrown if a schema cannot be converted; the message has the reason. */
export class NotFormable extends Error {}

const maxNodes = 1500;
const maxDepth = 12;
const maxMembers = 300; // per object
const maxOptions = 40; // per oneOf
const maxValues = 500; // per enum
const maxTextLength = 2000;
const maxDefaultLength = 10_000;
const maxRecursion = 2; // levels of a recursive reference before it becomes a JSON field

// Property names that have a special meaning in the form library.
const reservedNames = new Set(["__proto__", "__errors", "__additional_property", "constructor", "prototype"]);

type Place = { root: JsonObject; refs: string[]; depth: number };

/** Converts a schema, or throws NotFormable. */
export function formSchema(schema: JsonObject): JsonObject {
  const maker = new Maker();
  const result = maker.node(schema, { root: schema, refs: [], depth: 0 });
  if (result[asJson]) throw new NotFormable("The schema does not list the arguments.");
  return result;
}

class Maker {
  #nodes = 0;

  node(schema: Json | undefined, place: Place): JsonObject {
    if (++this.#nodes > maxNodes) throw new NotFormable("The schema is too large for a form.");
    if (!isObject(schema)) return json({});
    if (place.depth > maxDepth) return json(schema, "The schema is nested too deeply for a form.");
    const followed = follow(schema, place);
    if (typeof followed === "string") return json(schema, followed);
    const at = { ...followed.at, depth: place.depth + 1 };
    const whole = this.#flat(followed.target, at, 0);
    return { ...this.#shape(whole, at, place.depth === 0), ...about(whole) };
  }

  /**
   * Merges allOf and conditional subschemas into one schema. Conditional properties are optional
   * in the form; validation decides whether they are required.
   */
  #flat(schema: JsonObject, place: Place, depth: number): JsonObject {
    if (++this.#nodes > maxNodes || depth > maxDepth) throw new NotFormable("The schema is too large for a form.");
    const { allOf, if: _, then, else: otherwise, dependentSchemas, ...rest } = schema;
    let whole = rest as JsonObject;
    const add = (part: Json | undefined, always: boolean) => {
      const followed = isObject(part) ? follow(part, place) : "no schema";
      if (typeof followed === "string") return;
      const flattened = this.#flat(followed.target, followed.at, depth + 1);
      whole = merge(always ? flattened : pick(flattened, "properties"), whole);
    };
    if (Array.isArray(allOf)) for (const part of allOf) add(part, true);
    add(then, false);
    add(otherwise, false);
    if (isObject(dependentSchemas)) for (const part of Object.values(dependentSchemas)) add(part, false);
    return whole;
  }

  #shape(schema: JsonObject, at: Place, isRoot: boolean): JsonObject {
    if (schema.const !== undefined) return values([schema.const]);
    if (Array.isArray(schema.enum)) return enumOf(schema, schema.enum);
    const options = schema.oneOf ?? schema.anyOf;
    if (Array.isArray(options)) return this.#choice(schema, options, at);
    if (Array.isArray(schema.type)) return this.#types(schema, schema.type, at);
    switch (schema.type ?? (isObject(schema.properties) ? "object" : undefined)) {
      case "object": return this.#object(schema, at, isRoot);
      case "array": return this.#array(schema, at);
      case "string": return { type: "string", ...pick(schema, "maxLength", "default"), ...inputOf(schema) };
      case "number":
      case "integer": return { ...pick(schema, "type", "minimum", "maximum", "default") };
      case "boolean": return { type: "boolean", ...pick(schema, "default") };
      case "null": return { type: "null" };
    }
    return json(schema);
  }

  #object(schema: JsonObject, at: Place, isRoot: boolean): JsonObject {
    const members = isObject(schema.properties) ? Object.entries(schema.properties) : [];
    const rest = isObject(schema.additionalProperties) ? this.node(schema.additionalProperties, at) : undefined;
    if (members.length > maxMembers) throw new NotFormable(`An object in the schema has ${members.length} properties, which is too many for a form.`);
    if (members.length === 0 && !isRoot && !rest?.type && schema.additionalProperties !== false) return json(schema);
    const required = Array.isArray(schema.required) ? schema.required.filter((name) => typeof name === "string") : [];
    const properties: JsonObject = {};
    for (const [name, member] of members) {
      if (reservedNames.has(name)) throw new NotFormable(`The schema has a property named ${name}, which a form cannot display.`);
      const result = this.node(member, at);
      properties[name] = named(required.includes(name) ? fixed(result) : optional(result), member, name);
    }
    return { type: "object", properties, required, ...(rest?.type && { additionalProperties: rest }), ...pick(schema, "default") };
  }

  #array(schema: JsonObject, at: Place): JsonObject {
    const bounds = pick(schema, "maxItems", "default");
    const each = isObject(schema.items) ? this.node(schema.items, at) : undefined;
    if (Array.isArray(schema.prefixItems)) {
      if (schema.prefixItems.length > maxOptions) return json(schema);
      const items = schema.prefixItems.map((item) => this.node(item, at));
      return { type: "array", items, ...bounds, ...(each && { additionalItems: each }) };
    }
    if (!each) return json(schema);
    const several = schema.uniqueItems === true && Array.isArray(each.enum);
    return { type: "array", items: each, ...bounds, ...(several && { uniqueItems: true }) };
  }

  /** A oneOf or anyOf. Keywords next to it apply to each option. */
  #choice(schema: JsonObject, options: Json[], at: Place): JsonObject {
    const { oneOf: _, anyOf: __, description: ___, title: ____, default: byDefault, ...base } = schema;
    const followed = options.map((option) => (isObject(option) ? follow(option, at) : "no schema"));
    const real = followed.filter((option) => typeof option !== "string");
    if (real.length !== options.length || options.length > maxOptions) return json(schema);
    const constants = real.map(({ target }) => target.const);
    if (constants.length > 0 && constants.every((value) => value !== undefined)) {
      const labels = real.map(({ target }, i) => text(target.title) ?? label(constants[i] ?? null));
      return { ...values(constants.map((value) => value ?? null)), [labelsKey]: labels, ...pick(schema, "default") };
    }
    const others = real.filter(({ target }) => target.type !== "null");
    const only = others[0];
    if (others.length === 1 && only && real.length === 2) return this.#nullable({ ...base, ...only.target, ...(byDefault !== undefined && { default: byDefault }) }, only.at);
    const oneOf = real.map((option, i) => {
      const result = this.node(merge(base, option.target), option.at);
      return { ...fixed(result), title: optionTitle(option.target, i) };
    });
    return { oneOf, ...pick(schema, "default") };
  }

  #types(schema: JsonObject, types: Json[], at: Place): JsonObject {
    const others = types.filter((type) => type !== "null");
    const [only] = others;
    if (others.length === 1 && only !== undefined) {
      const single = { ...schema, type: only };
      return others.length < types.length ? this.#nullable(single, at) : this.#shape(single, at, false);
    }
    return { oneOf: types.map((type) => ({ ...this.node({ ...schema, type }, at), title: String(type) })) };
  }

  /** A nullable value: scalars have a null switch, others become a oneOf with null. */
  #nullable(schema: JsonObject, at: Place): JsonObject {
    const result = this.node(schema, at);
    if (Array.isArray(result.enum)) return { ...result, enum: [...result.enum, null], ...(Array.isArray(result[labelsKey]) && { [labelsKey]: [...result[labelsKey], "null"] }) };
    if (["string", "number", "integer", "boolean"].includes(String(result.type))) return { ...result, type: [result.type ?? "string", "null"] };
    if (result[asJson]) return result;
    return { oneOf: [{ ...result, title: optionTitle(schema, 0) }, { type: "null", title: "null" }] };
  }
}

const inputs: Record<string, string> = { date: "date", time: "time", "date-time": "datetime", password: "password", email: "email", uri: "url", url: "url", binary: "file", byte: "file" };

/** The best input type for a string. */
function inputOf({ format, writeOnly, contentEncoding }: JsonObject): JsonObject {
  const input = contentEncoding === "base64" ? "file" : writeOnly === true ? "password" : typeof format === "string" && Object.hasOwn(inputs, format) ? inputs[format] : undefined;
  return input === undefined ? {} : { [inputKey]: input };
}

/** Resolves references. A returned string is the reason why one cannot be resolved. */
function follow(schema: JsonObject, place: Place): { target: JsonObject; at: Place } | string {
  let target = schema;
  let { refs } = place;
  if (typeof target.$dynamicRef === "string") return "The schema uses a dynamic reference.";
  for (let hops = 0; typeof target.$ref === "string"; hops++) {
    const { $ref: ref, ...beside } = target as JsonObject & { $ref: string };
    if (hops > maxDepth || refs.filter((each) => each === ref).length >= maxRecursion) return "The type is recursive. Enter the rest as JSON.";
    const found = resolve(place.root, ref);
    if (!found) return `${ref} is not in this schema.`;
    refs = [...refs, ref];
    target = { ...found, ...beside };
  }
  return { target, at: { ...place, refs } };
}

/** Resolves a local reference. */
export function resolve(root: JsonObject, ref: string): JsonObject | undefined {
  if (ref !== "#" && !ref.startsWith("#/")) return undefined;
  let here: Json | undefined = root;
  for (const part of ref.split("/").slice(1)) {
    const key = decode(part).replaceAll("~1", "/").replaceAll("~0", "~");
    if (Array.isArray(here)) here = here[Number(key)];
    else if (isObject(here) && Object.hasOwn(here, key)) here = here[key];
    else return undefined;
  }
  return isObject(here) ? here : undefined;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // invalid percent-encoding: use the name unchanged
  }
}

/** Merges two schemas; the second one takes precedence. */
function merge(a: JsonObject, b: JsonObject): JsonObject {
  const both: JsonObject = { ...a, ...b };
  if (isObject(a.properties) && isObject(b.properties)) both.properties = { ...a.properties, ...b.properties };
  if (Array.isArray(a.required) && Array.isArray(b.required)) both.required = [...new Set([...a.required, ...b.required])];
  return both;
}

function enumOf(schema: JsonObject, list: Json[]): JsonObject {
  if (list.length === 0) return json(schema);
  if (list.length > maxValues) {
    const type = schema.type === "number" || schema.type === "integer" ? schema.type : "string";
    return { type, ...pick(schema, "default"), [hintKey]: `one of ${list.length} values` };
  }
  return { ...values(list), ...enumNames(schema, list), ...pick(schema, "default") };
}

/** The labels of the legacy keyword enumNames. */
function enumNames({ enumNames: names }: JsonObject, list: Json[]): JsonObject {
  if (!Array.isArray(names) || names.length !== list.length) return {};
  return { [labelsKey]: list.map((value, i) => text(names[i]) ?? label(value)) };
}

/** An enum. A common type is kept, since options are matched by type. */
function values(list: Json[]): JsonObject {
  const types = new Set(list.map((value) => (value === null ? "null" : typeof value)));
  const [type = "string"] = types;
  return types.size === 1 && ["string", "number", "boolean"].includes(type) ? { type, enum: list } : { enum: list };
}

/** Fills in a required constant. */
function fixed(result: JsonObject): JsonObject {
  if (!Array.isArray(result.enum) || result.enum.length !== 1) return result;
  return { ...result, default: result.enum[0] ?? null, [fixedKey]: true };
}

/** Makes an optional oneOf start as "not set", and also a fixed-length list, which would otherwise be present at once. */
function optional(result: JsonObject): JsonObject {
  if (result.default !== undefined) return result;
  const none = { title: "not set", not: {}, [unsetKey]: true };
  if (Array.isArray(result.oneOf)) return { ...result, oneOf: [none, ...result.oneOf] };
  if (!Array.isArray(result.items)) return result;
  const { description, ...list } = result;
  return { oneOf: [none, { ...list, title: "list" }], ...(description !== undefined && { description }) };
}

function json(schema: JsonObject, why?: string): JsonObject {
  return { [asJson]: true, ...pick(schema, "default"), ...(why && { [hintKey]: why }) };
}

/** The description and help text of a value. */
function about(schema: JsonObject): JsonObject {
  const description = text(schema.description);
  const words = schemaTree({ ...pick(schema, ...hinted) }).constraints;
  const example = Array.isArray(schema.examples) ? schema.examples[0] : undefined;
  if (example !== undefined) words.push(`for example ${label(example)}`);
  return {
    ...(description !== undefined && { description }),
    ...(words.length > 0 && { [hintKey]: visible(words.join(" · ").slice(0, maxTextLength)) }),
    ...(schema.deprecated === true && { deprecated: true }),
  };
}

const hinted = ["format", "pattern", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "contentMediaType", "contentEncoding"];

/** Labels a property by its name, which is what is sent. A different title goes into the description. */
function named(result: JsonObject, member: Json, name: string): JsonObject {
  const { title: _, ...rest } = result;
  const title = isObject(member) ? text(member.title) : undefined;
  if (rest.description === undefined && title !== undefined && plain(title) !== plain(name)) rest.description = title;
  return rest;
}

function plain(name: string): string {
  return name.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "");
}

function optionTitle(option: JsonObject, index: number): string {
  const title = text(option.title);
  if (title !== undefined) return title;
  const members = isObject(option.properties) ? Object.entries(option.properties).slice(0, maxMembers) : [];
  for (const [name, member] of members) {
    if (isObject(member) && member.const !== undefined) return visible(`${name}: ${label(member.const)}`);
  }
  if (option.const !== undefined) return label(option.const);
  if (members.length > 0) return visible(members.slice(0, 3).map(([name]) => name).join(", ").slice(0, 80));
  return typeof option.type === "string" ? option.type : `Option ${index + 1}`;
}

/** A value as a short label. */
export function label(value: Json): string {
  return visible((typeof value === "string" ? value : JSON.stringify(value)).slice(0, 120));
}

function pick(schema: JsonObject, ...names: string[]): JsonObject {
  const taken: JsonObject = {};
  for (const name of names) {
    const value = schema[name];
    if (value === undefined) continue;
    if (name === "default" && JSON.stringify(value).length > maxDefaultLength) continue;
    taken[name] = value;
  }
  return taken;
}

/** A text for display: of limited length, with invisible characters escaped. */
export function text(value: Json | undefined): string | undefined {
  return typeof value === "string" && value.trim() !== "" ? visible(value.slice(0, maxTextLength)) : undefined;
}
