import type { CostRow } from "../../api/types";
import { addMoney, compareMoney } from "../../format";

export type Totals = { calls: number; errors: number; charged: number; usd: string };

/** The sum of some costs; money is added up exactly. */
export function totalOf(costs: CostRow[]): Totals {
  return {
    calls: costs.reduce((sum, row) => sum + row.calls, 0),
    errors: costs.reduce((sum, row) => sum + row.errors, 0),
    charged: costs.reduce((sum, row) => sum + row.charged, 0),
    usd: addMoney(...costs.map((row) => row.usd)),
  };
}

/** The largest of some amounts. */
export function mostOf(amounts: string[]): string {
  return amounts.reduce((most, each) => (compareMoney(each, most) > 0 ? each : most), "0");
}

export type Day = Totals & { day: string };

/** Each day with what it cost, also those without calls. */
export function byDay(days: string[], costs: CostRow[]): Day[] {
  const known = Map.groupBy(costs, (row) => row.day ?? "");
  return days.map((day) => ({ day, ...totalOf(known.get(day) ?? []) }));
}
