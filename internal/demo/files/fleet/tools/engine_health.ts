import { z } from "zod";

export const title = "Engine health";
export const description = "Reads and rates temperature, oil pressure and vibration of a vessel's main engine.";
export const modes = ["read", "write"];
export const inputSchema = z.object({
  vessel: z.enum(["Solveig", "Anneke", "Marisol", "Kestrel", "Thalassa"]),
  sensors: z.array(z.enum(["temperature", "oil", "vibration"])).min(1).default(["temperature", "oil", "vibration"]),
});

const normal = { temperature: [78, 9, "°C", 88], oil: [4.2, 0.7, "bar", 4.8], vibration: [3.1, 1.4, "mm/s", 4.6] } as const;

export default async ({ vessel, sensors }: z.infer<typeof inputSchema>) => {
  const readings = sensors.map((sensor) => {
    const [mean, range, unit, high] = normal[sensor];
    const value = Number((mean + range * Math.sin(Date.now() / 900_000 + vessel.length + sensor.length)).toFixed(1));
    return { sensor, value, unit, rating: value > high ? "watch" : "good" };
  });
  return { vessel, readings };
};
