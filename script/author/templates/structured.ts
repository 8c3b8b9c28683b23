import type { Meta } from "toolyard";
import { z } from "zod";

export const title = "Text statistics"; // for users
export const description = "Counts the words of a text and lists the most frequent ones."; // for the model
export const category = "text";
export const modes = ["read", "write"];

export const inputSchema = z.object({
  text: z.string().describe("The text to count"),
  top: z.int().min(1).max(50).default(5).describe("How many words to list"),
});

// Every result is validated against this schema.
export const outputSchema = z.object({
  total: z.int(),
  top: z.array(z.object({ word: z.string(), count: z.int() })),
});

// Toolyard enforces the limit, and shows the rest in the catalog.
export const _meta: Meta = {
  latencyClass: "instant",
  rateLimit: { maxRequestsPerMinute: 120 },
};

export default async ({ text, top }: z.infer<typeof inputSchema>): Promise<z.infer<typeof outputSchema>> => {
  const words = text.toLowerCase().match(/\p{L}+/gu) ?? [];
  const groups = Object.entries(Object.groupBy(words, (word) => word));
  const counts = groups.map(([word, all = []]) => ({ word, count: all.length }));
  counts.sort((a, b) => b.count - a.count);
  return { total: words.length, top: counts.slice(0, top) };
};
