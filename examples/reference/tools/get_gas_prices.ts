import type { Meta } from "toolyard";
import { z } from "zod";
import { gasPrice, limits } from "./_service";

export const description = "Returns the current gas price of an EVM chain.";
export const category = "market_data";
export const modes = ["read", "write"];

export const inputSchema = z.object({
  chainId: z.int().default(1).describe("The EVM chain: 1 is Ethereum, 137 Polygon, 8453 Base"),
});
export const outputSchema = z.object({
  gasPrice: z.number().describe("The price of a unit of gas"),
  unit: z.string().describe("The unit of the price"),
});

// Raw data for programs and for answers: both surfaces, with a price per call.
export const _meta: Meta = {
  surface: "both",
  queryEligible: true,
  latencyClass: "instant",
  pricing: { executeUsd: "0.001" },
  rateLimit: {
    ...limits(1, 0.5),
    supportsBulk: false,
    recommendedBatchTools: ["compare_gas_prices"],
    notes: "For several chains, make one call of compare_gas_prices.",
  },
};

export default async ({ chainId }: z.infer<typeof inputSchema>) => ({ gasPrice: await gasPrice(chainId), unit: "gwei" });
