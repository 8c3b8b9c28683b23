import { z } from "zod";

// Hyperliquid encodes decimals as strings.
const decimal = z.string().regex(/^-?\d+(\.\d+)?$/).optional();

export const hyperliquid = z.object({
  marginSummary: z.object({ accountValue: decimal }).optional(),
  assetPositions: z
    .array(
      z.object({
        position: z
          .object({
            coin: z.string(),
            szi: decimal.describe("Size; negative if short"),
            positionValue: decimal,
            unrealizedPnl: decimal,
            leverage: z.object({ value: z.number() }).optional(),
          })
          .optional(),
      }),
    )
    .optional(),
});

export const wallet = z.object({
  address: z.string(),
  chainId: z.int(),
  balances: z.array(z.object({ token: z.string(), balance: z.string(), decimals: z.int(), usdValue: z.number().optional() })),
  nativeBalance: z.string(),
});

export type Position = { coin: string; size: number; value: number; pnl: number; leverage: number };

/** The positions of a portfolio as numbers. */
export function positionsOf(portfolio: z.infer<typeof hyperliquid>): Position[] {
  return (portfolio.assetPositions ?? []).flatMap(({ position: p }) =>
    p ? [{ coin: p.coin, size: Number(p.szi ?? 0), value: Math.abs(Number(p.positionValue ?? 0)), pnl: Number(p.unrealizedPnl ?? 0), leverage: p.leverage?.value ?? 0 }] : [],
  );
}

export const accountValueOf = (portfolio: z.infer<typeof hyperliquid>) => Number(portfolio.marginSummary?.accountValue ?? 0);

export const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);
