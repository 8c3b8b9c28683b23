import { z } from "zod";

export const title = "Classify goods";
export const description = "Suggests Harmonized System codes for a description of goods, most likely first.";
export const modes = ["read", "write"];
export const inputSchema = z.object({
  goods: z.string().min(3).max(300).describe("Description of the goods"),
  most: z.number().int().min(1).max(5).default(3).describe("Maximum number of suggestions"),
});

const headings: [string, string, string[]][] = [
  ["0805.10", "Oranges", ["orange", "oranges", "citrus", "fruit"]],
  ["0901.21", "Coffee, roasted", ["coffee", "roasted", "beans"]],
  ["2204.21", "Wine, in bottles", ["wine", "bottle", "bottles"]],
  ["4011.10", "Tyres for cars", ["tyre", "tyres", "rubber", "car"]],
  ["6109.10", "T-shirts, of cotton", ["shirt", "shirts", "cotton", "textile"]],
  ["7318.15", "Screws and bolts", ["screw", "screws", "bolts", "steel"]],
  ["8471.30", "Portable computers", ["laptop", "laptops", "computer", "computers"]],
  ["8541.43", "Solar panels", ["solar", "panels", "photovoltaic"]],
  ["9403.60", "Furniture, of wood", ["furniture", "table", "chairs", "wood", "wooden"]],
];

export default async ({ goods, most }: z.infer<typeof inputSchema>) => {
  const words = goods.toLowerCase().split(/\W+/);
  const found = headings
    .map(([code, heading, about]) => ({ code, heading, score: about.filter((word) => words.includes(word)).length / about.length }))
    .filter(({ score }) => score > 0)
    .toSorted((a, b) => b.score - a.score)
    .slice(0, most);
  if (found.length === 0) return { isError: true, error: "No heading matches; describe the material and the use of the goods." };
  return { suggestions: found.map((f) => ({ ...f, score: Number(f.score.toFixed(2)) })) };
};
