import { z } from "zod";

export const title = "Reroute a vessel";
export const description = "Sends a vessel to another port. The master confirms it by radio.";
export const inputSchema = z.object({
  vessel: z.enum(["Solveig", "Anneke", "Marisol", "Kestrel", "Thalassa"]),
  to: z.enum(["NLRTM", "BEANR", "DEHAM", "FRLEH", "ESVLC", "GRPIR", "NOOSL", "PLGDN", "USNYC", "SGSIN"]),
  reason: z.string().min(5).max(200),
});

export default async ({ vessel, to, reason }: z.infer<typeof inputSchema>) => ({ vessel, to, reason, order: `R-${Date.now() % 100_000}`, confirmed: false });
