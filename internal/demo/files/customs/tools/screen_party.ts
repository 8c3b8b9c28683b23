import { z } from "zod";

export const title = "Screen a party";
export const description = "Compares the name of a company or a person with lists of sanctioned parties.";
export const modes = ["read", "write"];
export const inputSchema = z.object({
  name: z.string().min(3).max(120).describe("Name of the party"),
  country: z.string().regex(/^[A-Z]{2}$/).optional().describe("Country code, if it is known"),
  lists: z.array(z.enum(["EU", "UN", "OFAC", "UK"])).min(1).default(["EU", "UN"]).describe("Which lists"),
});

const listed = ["Meridian Shadow Shipping", "Blackwater Reef Trading"]; // made up

export default async ({ name, lists }: z.infer<typeof inputSchema>) => {
  const words = (text: string) => new Set(text.toLowerCase().split(/\W+/));
  const asked = words(name);
  const matches = listed
    .map((party) => ({ party, score: [...words(party)].filter((word) => asked.has(word)).length / words(party).size }))
    .filter(({ score }) => score >= 0.5);
  return { name, lists, clear: matches.length === 0, matches };
};
