import type { Context } from "toolyard";
import { z } from "zod";

export const description = "Compares the weather at several places, with the time of the observation.";
export const hint = "One call of this instead of one call of weather for each place.";
export const category = "weather";
export const modes = ["read", "write"];
export const _meta = { rateLimit: { supportsBulk: true } };

export const inputSchema = z.object({
  locations: z.array(z.string().min(1)).min(2).max(10).describe("The places to compare"),
});

// The part of weather's result that is used here.
const weatherSchema = z.object({ location: z.string(), temperature: z.number(), conditions: z.string() });

export default async ({ locations }: z.infer<typeof inputSchema>, ctx: Context) => {
  // The calls run in parallel, with the same gate, limits and prices as external calls.
  // The empty server name is this yard.
  const [time, ...answers] = await ctx.mcp.callToolsParallel("", [
    { name: "timestamp", arguments: { format: "human" } },
    ...locations.map((location) => ({ name: "weather", arguments: { location } })),
  ]);

  const places: z.infer<typeof weatherSchema>[] = [];
  const failed: string[] = [];
  for (const [i, answer] of answers.entries()) {
    const weather = weatherSchema.safeParse(answer.structuredContent);
    if (!answer.isError && weather.success) places.push(weather.data);
    else failed.push(locations[i] ?? "");
  }
  if (places.length === 0) return { isError: true, error: "There is no weather for any of these places." };
  places.sort((a, b) => b.temperature - a.temperature);

  const first = time?.content[0];
  return { time: first?.type === "text" ? first.text : undefined, warmest: places[0]?.location, places, failed };
};
