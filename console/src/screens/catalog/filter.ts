import type { ToolFilter } from "../../api/types";
import type { TextSearch } from "../../search";

export type CatalogSearch = TextSearch<"q" | FilterName | "problem">;
export type FilterName = "source" | "category" | "mode" | "price" | "latency" | "gate";

export const filterNames: FilterName[] = ["source", "category", "mode", "price", "latency", "gate"];

/** The names of filters, as people read them. */
export const filterWords: Record<FilterName, string> = {
  source: "Source",
  category: "Category",
  mode: "Mode",
  price: "Price",
  latency: "Latency",
  gate: "Shown at gate",
};

/** A value of a filter, as people read it. */
export function valueWords(name: FilterName, value: string): string {
  if (name === "source" && value === "-") return "This yard";
  if (name === "mode") return value === "read" ? "Reads" : "Writes";
  if (name === "price") return value === "free" ? "Free" : "Paid";
  if (name === "latency") return value.slice(0, 1).toUpperCase() + value.slice(1);
  return value;
}

/** What is asked of the API for an address and the words that are typed now. */
export function filterOf(search: CatalogSearch, typed: string): ToolFilter {
  const filter: ToolFilter = {};
  const q = typed.trim();
  if (q !== "") filter.q = q;
  for (const name of filterNames) {
    if (search[name]) filter[name] = search[name];
  }
  if (search.problem === "true") filter.problem = true;
  return filter;
}

/** Whether anything but the words narrows the list. */
export function isFiltered(search: CatalogSearch): boolean {
  return search.problem === "true" || filterNames.some((name) => search[name] !== undefined);
}
