import type { ToolFilter } from "../../api/types";
import { oneOf, type TextSearch } from "../../search";

export type CatalogSearch = TextSearch<"q" | FilterName | "problem">;
export type FilterName = "source" | "category" | "mode" | "price" | "latency" | "gate";

export const filterNames: FilterName[] = ["source", "category", "mode", "price", "latency", "gate"];

/** The labels of the filters. */
export const filterLabels: Record<FilterName, string> = {
  source: "Source",
  category: "Category",
  mode: "Mode",
  price: "Price",
  latency: "Latency class",
  gate: "Gate",
};

/** The label of a filter value. */
export function valueLabel(name: FilterName, value: string): string {
  if (name === "source" && value === "-") return "Local";
  if (name === "mode") return value === "read" ? "Read" : "Write";
  if (name === "price") return value === "free" ? "Free" : "Paid";
  if (name === "latency") return value.slice(0, 1).toUpperCase() + value.slice(1);
  return value;
}

export const modes = ["read", "write"] as const;
const prices = ["free", "paid"] as const;

/** The API filter for the URL and the current search text. */
export function filterOf({ source, category, mode, price, latency, gate, problem }: CatalogSearch, typed: string): ToolFilter {
  return {
    q: typed.trim() || undefined,
    source,
    category,
    mode: oneOf(modes, mode),
    price: oneOf(prices, price),
    latency,
    gate,
    problem: problem === "true" || undefined,
  };
}

/** Reports whether a filter other than the search text is active. */
export function isFiltered(search: CatalogSearch): boolean {
  return search.problem === "true" || filterNames.some((name) => search[name] !== undefined);
}
