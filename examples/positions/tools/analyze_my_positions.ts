import type { Meta } from "toolyard";
import { z } from "zod";
import { accountValueOf, hyperliquid, positionsOf, sum } from "./_portfolio";

export const description = "Analyzes the user's Hyperliquid perpetual positions: profit, largest position and risk. Requires a linked Hyperliquid wallet.";
export const category = "portfolio";
export const modes = ["read", "write"];

export const _meta: Meta = { contextRequirements: ["hyperliquid"], latencyClass: "fast" };

export const inputSchema = z.object({ portfolio: hyperliquid.describe("The user's Hyperliquid portfolio, injected by the platform") });
export const outputSchema = z.object({
  totalPnl: z.number().describe("Unrealized profit in USD"),
  accountValue: z.number().describe("In USD"),
  positionCount: z.int(),
  topPosition: z.string().describe("The coin with the largest size, or None"),
  riskScore: z.number().min(0).max(100),
});

export default async ({ portfolio }: z.infer<typeof inputSchema>) => {
  const positions = positionsOf(portfolio);
  const accountValue = accountValueOf(portfolio);
  const totalPnl = sum(positions.map(({ pnl }) => pnl));
  const top = positions.toSorted((a, b) => Math.abs(b.size) - Math.abs(a.size))[0];
  const leverage = accountValue > 0 ? sum(positions.map(({ value }) => value)) / accountValue : 0;
  const concentration = positions.length === 1 ? 20 : 0;
  const riskScore = Math.min(100, Math.round(leverage * 10) + concentration + (positions.some((p) => p.leverage > 10) ? 30 : 0));
  // An account that has no positions is a valid answer, not an error.
  return { totalPnl, accountValue, positionCount: positions.length, topPosition: top?.coin ?? "None", riskScore };
};
