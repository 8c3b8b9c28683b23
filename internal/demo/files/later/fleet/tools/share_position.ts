import { z } from "zod";

export const title = "Share a position";
export const description = "Makes a link by which anyone can follow a vessel, without signing in.";
export const inputSchema = z.object({
  vessel: z.enum(["Solveig", "Anneke", "Marisol", "Kestrel", "Thalassa"]),
  hours: z.number().int().min(1).max(720).default(24).describe("How long the link is good for"),
});

export default async ({ vessel, hours }: z.infer<typeof inputSchema>) => ({ vessel, link: `https://fleet.harbor.example/follow/${vessel.toLowerCase()}`, hours });
