import { z } from "zod";

const rates: Record<string, number> = { AT: 20, DE: 19, ES: 21, FR: 20, IT: 22, NL: 21, PL: 23 };

export const description = "Returns the standard VAT rate of a country, in percent.";
export const modes = ["read", "write"];
export const inputSchema = z.object({ country: z.enum(Object.keys(rates)).describe("Country code, such as FR") });
export const _meta = {
  rateLimit: { maxRequestsPerMinute: 600, maxConcurrency: 8 }, // for all callers and replicas together
  pricing: { executeUsd: "0.001" }, // per call at a gate with surface execute
};

export default async ({ country }: z.infer<typeof inputSchema>) => rates[country];
