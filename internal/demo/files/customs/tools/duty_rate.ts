import { z } from "zod";

export const title = "Duty rate";
export const description = "Returns the duty and the import VAT for a Harmonized System code and a country of origin.";
export const modes = ["read", "write"];
export const inputSchema = z.object({
  code: z.string().regex(/^\d{4}\.\d{2}$/).describe("Harmonized System code, such as 0901.21"),
  origin: z.enum(["BR", "CN", "MA", "NO", "TR", "US", "VN"]).describe("Country of origin"),
  destination: z.enum(["NL", "BE", "DE", "FR", "ES", "GR", "PL"]).default("NL"),
});

const duty: Record<string, number> = { "08": 10.4, "09": 7.5, "22": 13.1, "40": 4.5, "61": 12, "73": 3.7, "84": 0, "85": 0, "94": 2.7 };
const vat = { NL: 21, BE: 21, DE: 19, FR: 20, ES: 21, GR: 24, PL: 23 };

export default async ({ code, origin, destination }: z.infer<typeof inputSchema>) => {
  const rate = duty[code.slice(0, 2)];
  if (rate === undefined) return { isError: true, error: `The tariff has no chapter ${code.slice(0, 2)}.` };
  const free = origin === "NO" || origin === "TR";
  return { code, origin, dutyPercent: free ? 0 : rate, vatPercent: vat[destination], agreement: free ? "customs union or free trade" : null };
};
