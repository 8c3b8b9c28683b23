import { ToolError } from "toolyard";
import { z } from "zod";

export const description = "Counts the working days of a period: Monday to Friday, without holidays. Use it for deadlines and delivery dates.";
export const modes = ["read"]; // it changes nothing

export const inputSchema = z.object({
  from: z.iso.date().describe("The first day, such as 2026-12-21"),
  to: z.iso.date().describe("The last day, which is included"),
  holidays: z.array(z.iso.date()).max(100).default([]).describe("Days off, in addition to weekends"),
});
export const outputSchema = z.object({ days: z.int().min(0).describe("Number of working days") });

const day = 24 * 60 * 60 * 1000;
const maxDays = 3660;

export default async ({ from, to, holidays }: z.infer<typeof inputSchema>) => {
  const [first, last] = [Date.parse(from), Date.parse(to)];
  if (last < first || last - first > maxDays * day) {
    throw new ToolError(`The period must have 1 to ${maxDays} days.`, {
      code: "VALIDATION_ERROR",
      issues: [{ path: "to", message: "must not be before the first day, nor more than ten years after it" }],
    });
  }
  const off = new Set(holidays);
  let days = 0;
  for (let at = first; at <= last; at += day) {
    const date = new Date(at);
    if (date.getUTCDay() % 6 !== 0 && !off.has(date.toISOString().slice(0, 10))) days++;
  }
  return { days };
};
