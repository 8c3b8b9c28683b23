import type { CostRow } from "../../api/types";
import { addMoney, compareMoney, moneyText, parseMoney } from "../../format";
import { bucketOf, dayAfter, type Grain } from "./range";

export type Totals = { calls: number; errors: number; charged: number; usd: string };

/** Sums costs, with exact amounts. */
export function totalOf(costs: CostRow[]): Totals {
  return {
    calls: costs.reduce((sum, row) => sum + row.calls, 0),
    errors: costs.reduce((sum, row) => sum + row.errors, 0),
    charged: costs.reduce((sum, row) => sum + row.charged, 0),
    usd: addMoney(...costs.map((row) => row.usd)),
  };
}

/** The largest amount. */
export function largestOf(amounts: string[]): string {
  return amounts.reduce((most, each) => (compareMoney(each, most) > 0 ? each : most), "0");
}

export type Bucket = Totals & { bucket: string };

/** Each bucket's totals, including buckets that have no calls. */
export function byBucket(buckets: string[], costs: CostRow[]): Bucket[] {
  const known = Map.groupBy(costs, (row) => row.day ?? "");
  return buckets.map((bucket) => ({ bucket, ...totalOf(known.get(bucket) ?? []) }));
}

/** The previous period's spend, shifted into this period's buckets. */
export function shifted(buckets: string[], costs: CostRow[], days: number, grain: Grain): string[] {
  const known = Map.groupBy(costs, (row) => bucketOf(dayAfter(row.day ?? "", days), grain));
  return buckets.map((bucket) => totalOf(known.get(bucket) ?? []).usd);
}

export type Share = { name: string; usd: string[] };

/** Adds the remainder of the totals as "Other accounts". */
export function shares(totals: string[], accounts: Share[]): Share[] {
  const rest = totals.map((total, i) => moneyText(accounts.reduce((left, { usd }) => left - (parseMoney(usd[i] ?? "0") ?? 0n), parseMoney(total) ?? 0n)));
  return rest.some((usd) => compareMoney(usd, "0") > 0) ? [...accounts, { name: "Other accounts", usd: rest }] : accounts;
}

/** An amount as a float; use it only for bar lengths. */
export function toNumber(usd: string): number {
  return Number(parseMoney(usd) ?? 0n) / 1e9;
}
