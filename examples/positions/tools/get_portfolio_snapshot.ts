import type { Meta } from "toolyard";
import { z } from "zod";
import { wallet } from "./_portfolio";

export const description = "Fetches a snapshot of all balances of the user's wallet in one call. Requires a linked wallet.";
export const category = "portfolio";
export const modes = ["read", "write"];

// The snapshot already contains every token, so the tool recommends itself as the alternative to a
// loop.
export const _meta: Meta = {
  contextRequirements: ["wallet"],
  rateLimit: {
    maxRequestsPerMinute: 30,
    cooldownMs: 2000,
    maxConcurrency: 1,
    supportsBulk: true,
    recommendedBatchTools: ["get_portfolio_snapshot"],
    notes: "Hobby tier: prefer one snapshot to a loop over assets.",
  },
};

export const inputSchema = z.object({ portfolio: wallet.describe("The user's wallet, injected by the platform") });
export const outputSchema = z.object({
  address: z.string(),
  chainId: z.int(),
  nativeBalance: z.string(),
  tokens: z.array(z.object({ token: z.string(), amount: z.string(), usdValue: z.number().optional() })),
});

/** Moves the decimal point of an integer, without rounding. */
function scaled(balance: string, decimals: number): string {
  const digits = balance.padStart(decimals + 1, "0");
  const whole = digits.slice(0, digits.length - decimals);
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, "");
  return fraction ? `${whole}.${fraction}` : whole;
}

export default async ({ portfolio: { address, chainId, nativeBalance, balances } }: z.infer<typeof inputSchema>) => ({
  address,
  chainId,
  nativeBalance,
  tokens: balances.map(({ token, balance, decimals, usdValue }) => ({ token, amount: scaled(balance, decimals), usdValue })),
});
