import type { Meta } from "toolyard";
import { z } from "zod";

export const title = "Portfolio risk";
export const description = "Rates the risk of the user's Hyperliquid portfolio. Requires a linked Hyperliquid wallet.";
export const category = "finance";
export const modes = ["read", "write"];

// Toolyard fetches the caller's account at Hyperliquid and injects it as portfolio. The tool
// sees neither the address nor a key.
export const _meta: Meta = { contextRequirements: ["hyperliquid"], latencyClass: "fast" };

// Hyperliquid encodes decimals as strings.
const decimal = z
  .string()
  .regex(/^-?\d+(\.\d+)?$/)
  .optional();

export const inputSchema = z.object({
  portfolio: z
    .object({
      marginSummary: z.object({ accountValue: decimal }).optional(),
      assetPositions: z
        .array(
          z.object({
            position: z
              .object({
                coin: z.string(),
                positionValue: decimal,
                leverage: z.object({ value: z.number() }).optional(),
              })
              .optional(),
          }),
        )
        .optional(),
    })
    .describe("What the user has at Hyperliquid, as its Info API tells it"),
  riskTolerance: z.enum(["conservative", "moderate", "aggressive"]).default("moderate").describe("How much risk the user wants"),
});

export default async ({ portfolio, riskTolerance }: z.infer<typeof inputSchema>) => {
  const positions = (portfolio.assetPositions ?? []).map(({ position }) => ({
    coin: position?.coin ?? "None",
    value: Math.abs(Number(position?.positionValue ?? "0")), // also for short positions
    leverage: position?.leverage?.value ?? 0,
  }));
  const account = Number(portfolio.marginSummary?.accountValue ?? "0");
  const notional = positions.reduce((sum, p) => sum + p.value, 0);
  const leverageRatio = account > 0 ? notional / account : 0;
  const largest = positions.toSorted((a, b) => b.value - a.value)[0];

  let riskScore = 0;
  if (leverageRatio > 5) riskScore += 40;
  else if (leverageRatio > 2) riskScore += 20;
  if (positions.length > 10) riskScore += 20;
  if (positions.some((p) => p.leverage > 10)) riskScore += 30;

  const recommendations: string[] = [];
  if (leverageRatio > 3) recommendations.push("Consider reducing leverage");
  if (positions.length > 8) recommendations.push("Portfolio may be over-diversified");
  if (riskTolerance === "conservative" && leverageRatio > 1) {
    recommendations.push("A conservative portfolio is worth no more than its account");
  }

  // A complete result: text for users, and structured content for programs.
  return {
    content: [{ type: "text", text: `Risk Score: ${riskScore}/100. Leverage: ${leverageRatio.toFixed(2)}x` }],
    structuredContent: { riskScore, leverageRatio, largestPosition: largest?.coin ?? "None", recommendations },
  };
};
