import { z } from "zod";

export const title = "Fuel log";
export const description = "Lists the daily fuel consumption of a vessel.";
export const modes = ["read", "write"];
export const inputSchema = z.object({
  vessel: z.enum(["Solveig", "Anneke", "Marisol", "Kestrel", "Thalassa"]),
  days: z.number().int().min(1).max(30).default(7).describe("Number of past days"),
});

export default async ({ vessel, days }: z.infer<typeof inputSchema>) => ({
  vessel,
  log: Array.from({ length: days }, (_, i) => ({
    day: new Date(Date.now() - i * 86_400_000).toISOString().slice(0, 10),
    tonnes: Number((14 + 5 * Math.sin(i + vessel.length)).toFixed(1)),
  })),
});
