import { z } from "zod";

export const title = "Share a position";
export const description = "Creates a public link to the position of a vessel.";
export const inputSchema = z.object({
  vessel: z.enum(["Solveig", "Anneke", "Marisol", "Kestrel", "Thalassa"]),
  hours: z.number().int().min(1).max(720).default(24).describe("Lifetime of the link in hours"),
});

export default async ({ vessel, hours }: z.infer<typeof inputSchema>) => ({ vessel, link: `https://fleet.harbor.example/follow/${vessel.toLowerCase()}`, hours });
