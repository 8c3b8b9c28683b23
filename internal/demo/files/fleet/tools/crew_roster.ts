import { z } from "zod";

export const title = "Crew roster";
export const description = "Lists the crew on watch on a vessel, by rank, without contact data.";
export const modes = ["read", "write"];
export const inputSchema = z.object({
  vessel: z.enum(["Solveig", "Anneke", "Marisol", "Kestrel", "Thalassa"]),
  watch: z.enum(["morning", "afternoon", "night"]).default("morning"),
});

const names = ["J. Dekker", "A. Lindqvist", "M. Okafor", "P. Santos", "R. Yilmaz", "K. Nowak"];
const ranks = ["Master", "Chief mate", "Second engineer"];

export default async ({ vessel, watch }: z.infer<typeof inputSchema>) => ({
  vessel,
  watch,
  crew: ranks.map((rank, i) => ({ rank, name: names[(vessel.length + watch.length + 2 * i) % names.length] })),
});
