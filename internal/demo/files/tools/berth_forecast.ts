import { z } from "zod";

export const description = "Estimates how full the quay will be on a day.";
export const modes = ["read", "write"];
export const inputSchema = z.object({
  day: z.string().describe("Such as 2026-11-15"),
});

// This file does not compile (a bracket is missing), to show a problem in the demo.
export default async ({ day }: z.infer<typeof inputSchema>) => {
  const weekday = new Date(day).getUTCDay(;
  return { day, occupancy: weekday === 0 ? 0.4 : 0.8 };
};
