import type { Context, Meta } from "toolyard";
import { z } from "zod";
import { limits, post } from "./_service";

export const description = "Streams trades of a perpetual as they happen, as progress, and returns them all at the end.";
export const category = "market_data";
export const modes = ["read", "write"];
export const timeout = 25_000; // in milliseconds

export const inputSchema = z.object({
  coin: z.string().min(1).max(20).default("BTC").describe("The symbol of the perpetual, such as BTC"),
  seconds: z.int().min(1).max(20).default(5).describe("How long to stream"),
});

const tradeSchema = z.object({ tid: z.number(), side: z.string(), px: z.string(), sz: z.string(), time: z.number() });
export const outputSchema = z.object({ trades: z.array(tradeSchema) });

// A stream is meant for programs, because no answer can be composed from it.
export const _meta: Meta = {
  surface: "execute",
  queryEligible: false,
  latencyClass: "streaming",
  pricing: { executeUsd: "0.0005" },
  rateLimit: { ...limits(1, 0.25), supportsBulk: false, notes: "Call it alone: it polls the service once a second." },
};

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

export default async ({ coin, seconds }: z.infer<typeof inputSchema>, ctx: Context) => {
  const trades = new Map<number, z.infer<typeof tradeSchema>>();
  for (let second = 0; second < seconds; second++) {
    const found = z.array(tradeSchema).safeParse(await post("https://api.hyperliquid.xyz/info", { type: "recentTrades", coin }));
    for (const trade of found.data ?? []) {
      if (trades.has(trade.tid)) continue;
      trades.set(trade.tid, trade);
      ctx.progress(second + 1, seconds, `${trade.side === "B" ? "buy" : "sell"} ${trade.sz} ${coin} at ${trade.px}`);
    }
    if (second + 1 < seconds) await pause(1000);
  }
  return { trades: [...trades.values()].toSorted((a, b) => a.time - b.time) };
};
