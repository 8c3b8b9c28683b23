import { z } from "zod";

export const description = "Tells the weather at a place: temperature, sky, humidity and wind.";
export const hint = "An example with made-up figures: they are the same everywhere.";
export const category = "weather";
export const modes = ["read", "write"];

export const inputSchema = z.object({
  location: z.string().min(1).describe("A city or region, such as Lisbon"),
});

// Clients see the output schema, and every result is validated against it.
export const outputSchema = z.object({
  location: z.string().describe("The requested place"),
  temperature: z.number().describe("In degrees Celsius"),
  conditions: z.string().describe("The sky in words"),
  humidity: z.number().min(0).max(100).describe("In percent"),
  wind: z.object({
    speed: z.number().min(0).describe("In kilometres per hour"),
    direction: z.string().describe("Where it comes from, such as NW"),
  }),
});

export const _meta = { latencyClass: "instant", rateLimit: { maxRequestsPerMinute: 600 } };

export default async ({ location }: z.infer<typeof inputSchema>) => {
  if (location.trim().toLowerCase() === "unknown") {
    return { isError: true, error: `There is no weather for "${location}". Name a city or region.` };
  }
  return {
    location,
    temperature: 22.5,
    conditions: "Partly cloudy",
    humidity: 65,
    wind: { speed: 12, direction: "NW" },
  } satisfies z.infer<typeof outputSchema>;
};
