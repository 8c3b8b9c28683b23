// Finds the oneOf option that matches a value, and an option's initial value.
import { isObject, type Json, type JsonObject } from "../../api/json";
import { fits } from "./check";
import { asJson, fixedKey, unsetKey } from "./formSchema";

/** The first option that a value is valid for, or else the most similar one. */
export function optionFor(options: JsonObject[], value: Json | undefined): number {
  const exact = options.findIndex((option) => fitsOption(option, value) && (value === undefined || option[asJson] === true || fits(option, value)));
  if (exact >= 0) return exact;
  const scores = options.map((option) => (fitsOption(option, value) ? 1 + similarity(option, value) : 0));
  return Math.max(0, scores.indexOf(Math.max(...scores)));
}

/** Reports whether a value can be edited with an option, even if some members are missing. */
export function fitsOption(option: JsonObject, value: Json | undefined): boolean {
  if (value === undefined || option[unsetKey]) return value === undefined && option[unsetKey] === true;
  if (option[asJson]) return true;
  if (Array.isArray(option.enum)) return option.enum.some((each) => JSON.stringify(each) === JSON.stringify(value));
  const types = Array.isArray(option.type) ? option.type : [option.type];
  return types.includes(typeOf(value)) || (types.includes("integer") && Number.isInteger(value)) || (isObject(value) && types.includes("object") && hasFixed(option, value));
}

function typeOf(value: Json): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value === "object" ? "" : typeof value;
}

/** Reports whether all constant members have their value. */
function hasFixed(option: JsonObject, value: JsonObject): boolean {
  return Object.entries(isObject(option.properties) ? option.properties : {}).every(([name, member]) => !isObject(member) || !member[fixedKey] || value[name] === undefined || value[name] === (Array.isArray(member.enum) ? member.enum[0] : undefined));
}

function similarity(option: JsonObject, value: Json | undefined): number {
  if (!isObject(value) || !isObject(option.properties)) return 0;
  return Object.keys(value).filter((name) => Object.hasOwn(option.properties as JsonObject, name)).length;
}

/** A newly selected option's value. */
export function initialValue(option: JsonObject, byDefault: Json | undefined): Json | undefined {
  if (option[unsetKey] || option[asJson]) return undefined;
  if (byDefault !== undefined) return byDefault;
  return ({ null: null, object: {}, array: [], string: "" } as Record<string, Json>)[String(option.type)];
}
