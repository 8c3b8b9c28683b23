import type { Meta } from "toolyard";
import { z } from "zod";

export const title = "Weather at a port";
export const description = "Forecasts wind, waves, visibility and temperature at a port.";
export const hint = "One call covers up to 48 hours; do not ask hour by hour.";
export const category = "weather";
export const modes = ["read", "write"];
export const _meta: Meta = {
  pricing: { executeUsd: "0.002" },
  latencyClass: "fast",
  rateLimit: { maxRequestsPerMinute: 60, notes: "The forecast changes once in an hour." },
};

export const inputSchema = z.object({
  port: z.enum(["NLRTM", "BEANR", "DEHAM", "FRLEH", "ESVLC", "GRPIR", "NOOSL", "PLGDN", "USNYC", "SGSIN"]).describe("UN/LOCODE of the port"),
  hours: z.number().int().min(1).max(48).default(6).describe("Hours ahead"),
  units: z.object({
    wind: z.enum(["kn", "m/s"]).default("kn"),
    temperature: z.enum(["C", "F"]).default("C"),
  }).default({ wind: "kn", temperature: "C" }).describe("Units of the values"),
});

export const outputSchema = z.object({
  port: z.string(),
  hours: z.array(z.object({ at: z.string(), wind: z.number(), wavesM: z.number(), visibilityNm: z.number(), temperature: z.number() })),
  warning: z.string().optional(),
});

// Simulates a weather service: smooth, different for each port, the same for all callers.
const figure = (port: string, hour: number, scale: number) => {
  const seed = [...port].reduce((sum, letter) => sum * 31 + letter.charCodeAt(0), 7) % 997;
  return 0.5 + 0.3 * Math.sin((hour + seed) / (7 * scale)) + 0.2 * Math.sin((hour + 3 * seed) / (2.3 * scale));
};

const round = (value: number) => Math.round(value * 10) / 10;

export default async ({ port, hours, units }: z.infer<typeof inputSchema>) => {
  const now = Math.floor(Date.now() / 3_600_000);
  const list = Array.from({ length: hours }, (_, i) => {
    const hour = now + i;
    const knots = 4 + 30 * figure(port, hour, 1);
    const celsius = 4 + 18 * figure(port, hour, 3);
    return {
      at: new Date(hour * 3_600_000).toISOString(),
      wind: round(units.wind === "kn" ? knots : knots * 0.5144),
      wavesM: round(knots / 12),
      visibilityNm: round(2 + 10 * figure(port, hour, 2)),
      temperature: round(units.temperature === "C" ? celsius : celsius * 1.8 + 32),
    };
  });
  const rough = list.find((hour) => hour.wavesM > 2.4);
  return { port, hours: list, warning: rough && `Small craft warning from ${rough.at}` };
};
