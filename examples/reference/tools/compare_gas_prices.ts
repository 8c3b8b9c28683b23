import type { Meta } from "toolyard";
import { z } from "zod";
import { chains, gasPrice, limits } from "./_service";

export const description = "Compares the gas prices of several EVM chains, and names the cheapest.";
export const category = "market_data";
export const modes = ["read", "write"];

export const inputSchema = z.object({
  chainIds: z.array(z.int()).min(1).max(3).default([1, 137, 8453]).describe("The EVM chains to compare"),
});
export const outputSchema = z.object({
  prices: z.array(z.object({ chainId: z.int(), chain: z.string(), gwei: z.number() })),
  cheapest: z.string(),
});

// A curated answer, offered only for composing answers. A price of null prevents the operator's
// default price.
export const _meta: Meta = {
  surface: "answer",
  queryEligible: true,
  latencyClass: "fast",
  pricing: { executeUsd: null },
  rateLimit: { ...limits(3, 0.5), supportsBulk: true, recommendedBatchTools: ["compare_gas_prices"], notes: "One call for all chains." },
};

export default async ({ chainIds }: z.infer<typeof inputSchema>) => {
  const prices = await Promise.all(
    chainIds.map(async (chainId) => ({ chainId, chain: chains[chainId]?.name ?? "", gwei: await gasPrice(chainId) })),
  );
  prices.sort((a, b) => a.gwei - b.gwei);
  return { prices, cheapest: prices[0]?.chain ?? "" };
};
