import type { Meta } from "toolyard";
import { z } from "zod";

export const title = "Exchange rate";
export const description = "Returns the exchange rate of two currencies and converts an amount.";
export const category = "finance";
export const modes = ["read", "write"];
export const _meta: Meta = { pricing: { executeUsd: "0.001" }, latencyClass: "fast" };

const currency = z.enum(["EUR", "USD", "GBP", "NOK", "PLN", "SGD"]);

export const inputSchema = z.object({
  from: currency.describe("Source currency"),
  to: currency.describe("Target currency"),
  amount: z.number().positive().max(1e9).default(1).describe("Amount to convert"),
});

// Per euro.
const rates = { EUR: 1, USD: 1.0842, GBP: 0.8391, NOK: 11.634, PLN: 4.2715, SGD: 1.4502 };

export default async ({ from, to, amount }: z.infer<typeof inputSchema>) => {
  // The service fails sometimes, to show failures in the demo.
  if (Math.random() < 0.15) throw new Error("The rate service responded with status 503 (updating).");
  const rate = rates[to] / rates[from];
  return { from, to, rate: Number(rate.toFixed(6)), amount: Number((amount * rate).toFixed(2)), asOf: new Date().toISOString().slice(0, 10) };
};
