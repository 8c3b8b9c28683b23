import { isObject, type JsonObject } from "../../api/json";

/** Reports whether an action's result is a failure. */
export const isFailure = (result: JsonObject): boolean => result.isError === true;

/** A result's texts, or the whole result as JSON if it has none. */
export function textOf(result: JsonObject): string {
  const items = Array.isArray(result.content) ? result.content : [];
  const texts = items.flatMap((item) => (isObject(item) && item.type === "text" && typeof item.text === "string" ? [item.text] : []));
  return texts.length > 0 ? texts.join("\n") : JSON.stringify(result, null, 2);
}
