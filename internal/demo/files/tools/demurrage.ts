import type { Meta } from "toolyard";
import { z } from "zod";

export const title = "Demurrage";
export const description = "Computes the demurrage of containers that exceed their free days on the quay, by tier.";
export const category = "finance";
export const modes = ["read", "write"];
export const _meta: Meta = { pricing: { executeUsd: "0.01" }, latencyClass: "instant" };

const tier = z.object({
  days: z.number().int().min(1).max(365).describe("Days in this tier"),
  perDay: z.number().min(0).max(10_000).describe("Euros per container and day"),
});

export const inputSchema = z.object({
  containers: z.array(z.object({
    number: z.string().regex(/^[A-Z]{4}\d{7}$/).describe("Container number, such as HRBU4821937"),
    size: z.enum(["20", "40", "40HC", "45"]).default("40"),
    days: z.number().int().min(0).max(365).describe("Days on the quay"),
  })).min(1).max(100),
  freeDays: z.number().int().min(0).max(30).default(5),
  tiers: z.array(tier).max(5).default([{ days: 5, perDay: 45 }, { days: 5, perDay: 80 }, { days: 355, perDay: 140 }]).describe("Daily rates after the free days"),
});

export const outputSchema = z.object({
  containers: z.array(z.object({ number: z.string(), chargedDays: z.number(), euros: z.number() })),
  euros: z.number(),
});

const factor = { "20": 0.6, "40": 1, "40HC": 1, "45": 1.2 };

export default async ({ containers, freeDays, tiers }: z.infer<typeof inputSchema>) => {
  const list = containers.map(({ number, size, days }) => {
    const chargedDays = Math.max(0, days - freeDays);
    let left = chargedDays;
    let cents = 0;
    for (const { days, perDay } of tiers) {
      const within = Math.min(left, days);
      cents += Math.round(within * perDay * factor[size] * 100);
      left -= within;
    }
    return { number, chargedDays, euros: cents / 100 };
  });
  return { containers: list, euros: Math.round(list.reduce((sum, c) => sum + c.euros * 100, 0)) / 100 };
};
