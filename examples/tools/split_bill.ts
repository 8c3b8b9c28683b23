import { z } from "zod";

export const description = "Splits a bill among people, to the cent.";
export const modes = ["read", "write"]; // it changes nothing, so every gate may offer it
export const inputSchema = z.object({
  total: z.number().positive().describe("The bill, tip included"),
  people: z.number().int().min(1).max(50).default(2).describe("Number of people"),
});

export default async ({ total, people }: z.infer<typeof inputSchema>) => {
  const cents = Math.round(total * 100);
  return Array.from({ length: people }, (_, i) => Math.ceil((cents - i) / people) / 100);
};
