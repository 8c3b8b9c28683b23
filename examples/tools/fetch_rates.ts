import type { Context, Permissions } from "toolyard";
import { z } from "zod";

export const description = "Returns today's exchange rates of a currency, as published by central banks.";
export const category = "finance";
export const modes = ["read", "write"];
export const timeout = 10_000;

// Permissions that the operator must grant in toolyard.yaml:
//   scripts: {grants: {fetch_rates: {net: [api.frankfurter.dev], env: [RATES_URL]}}}
// The operator chooses the host: RATES_URL may name another one.
export const permissions: Permissions = { net: ["*"], env: ["RATES_URL"] };

const currency = z.string().regex(/^[A-Z]{3}$/);

export const inputSchema = z.object({
  base: currency.default("EUR").describe("Base currency: three capital letters, such as EUR"),
  symbols: z.array(currency).max(20).default([]).describe("Target currencies; empty for all"),
});

// Responses from other services are validated like arguments.
const answerSchema = z.object({
  base: z.string(),
  date: z.string(),
  rates: z.record(z.string(), z.number()),
});

export default async ({ base, symbols }: z.infer<typeof inputSchema>, ctx: Context) => {
  const url = new URL(process.env.RATES_URL ?? "https://api.frankfurter.dev/v1/latest");
  url.searchParams.set("base", base);
  if (symbols.length > 0) url.searchParams.set("symbols", symbols.join(","));
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(5_000) });
    if (!response.ok) return { isError: true, error: `The rate service answered with status ${response.status}.` };
    const answer = answerSchema.safeParse(await response.json());
    if (answer.success) return answer.data;
    ctx.log.warn("unexpected answer", { url: url.href, problem: z.prettifyError(answer.error) });
    return { isError: true, error: "The rate service sent something that is not a table of rates." };
  } catch (e) {
    return { isError: true, error: `The rates could not be fetched: ${e instanceof Error ? e.message : e}` };
  }
};
