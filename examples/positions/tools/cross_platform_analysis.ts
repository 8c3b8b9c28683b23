import type { Meta } from "toolyard";
import { z } from "zod";
import { accountValueOf, hyperliquid, positionsOf, sum, wallet } from "./_portfolio";

export const description = "Compares what the user trades at Hyperliquid with what the user's wallet holds. Requires a linked Hyperliquid account and a linked wallet.";
export const category = "portfolio";
export const modes = ["read", "write"];

// With two kinds, each has its own argument.
export const _meta: Meta = { contextRequirements: ["hyperliquid", "wallet"], latencyClass: "fast" };

export const inputSchema = z.object({
  hyperliquidPortfolio: hyperliquid.describe("Injected by the platform"),
  walletPortfolio: wallet.describe("Injected by the platform"),
});
export const outputSchema = z.object({
  tradedUsd: z.number().describe("Value of all positions at Hyperliquid"),
  accountUsd: z.number().describe("Value of the account at Hyperliquid"),
  walletUsd: z.number().describe("Value of the wallet's tokens with a known price"),
  unpriced: z.array(z.string()).describe("Tokens of the wallet without a known price"),
  hedged: z.array(z.string()).describe("Coins that the wallet holds and that are sold short at Hyperliquid"),
});

export default async ({ hyperliquidPortfolio, walletPortfolio }: z.infer<typeof inputSchema>) => {
  const positions = positionsOf(hyperliquidPortfolio);
  const held = walletPortfolio.balances.filter(({ balance }) => BigInt(balance) > 0n);
  const short = new Set(positions.filter(({ size }) => size < 0).map(({ coin }) => coin));
  return {
    tradedUsd: sum(positions.map(({ value }) => value)),
    accountUsd: accountValueOf(hyperliquidPortfolio),
    walletUsd: sum(held.map(({ usdValue }) => usdValue ?? 0)),
    unpriced: held.filter(({ usdValue }) => usdValue === undefined).map(({ token }) => token),
    hedged: held.map(({ token }) => token.replace(/^W(ETH|BTC)$/, "$1")).filter((coin) => short.has(coin)),
  };
};
