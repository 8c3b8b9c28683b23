import { z } from "zod";

export const title = "Screen a party";
export const description = "Checks the name of a company or person against sanctions lists.";
export const modes = ["read", "write"];
export const inputSchema = z.object({
  name: z.string().min(3).max(120).describe("Name of the party"),
  country: z.string().regex(/^[A-Z]{2}$/).optional().describe("Country code, if known"),
  lists: z.array(z.enum(["EU", "UN", "OFAC", "UK"])).min(1).default(["EU", "UN"]).describe("Lists to check"),
});

const listed = ["Meridian Shadow Shipping", "Blackwater Reef Trading"]; // fictitious

export default async ({ name, lists }: z.infer<typeof inputSchema>) => {
  const words = (text: string) => new Set(text.toLowerCase().split(/\W+/));
  const query = words(name);
  const matches = listed
    .map((party) => ({ party, score: [...words(party)].filter((word) => query.has(word)).length / words(party).size }))
    .filter(({ score }) => score >= 0.5);
  return { name, lists, clear: matches.length === 0, matches };
};
