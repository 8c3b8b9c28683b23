import { isObject, type Json, type JsonObject } from "../../api/json";

export type Tabular = { path: string; columns: string[]; rows: JsonObject[]; total: number };

const maxRows = 500;
const maxColumns = 24;

/** The array of objects in a value: the value itself, or the only member of that type. */
export function tabular(value: Json | undefined): Tabular | undefined {
  if (Array.isArray(value)) return tableOf("", value);
  if (!isObject(value)) return undefined;
  const lists = Object.entries(value).filter(([, member]) => Array.isArray(member) && member.length > 0 && member.every(isObject));
  const [only] = lists;
  return lists.length === 1 && only ? tableOf(only[0], only[1] as Json[]) : undefined;
}

function tableOf(path: string, list: Json[]): Tabular | undefined {
  if (list.length === 0 || !list.every(isObject)) return undefined;
  const rows = list.slice(0, maxRows);
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  if (columns.length === 0 || columns.length > maxColumns) return undefined;
  return { path, columns, rows, total: list.length };
}
