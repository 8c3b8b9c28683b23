import { z } from "zod";

export const title = "Clearance status";
export const description = "Returns the clearance status of a customs declaration.";
export const modes = ["read", "write"];
export const inputSchema = z.object({
  declaration: z.string().regex(/^HD-\d{6}$/).describe("Such as HD-204518"),
});

const steps = ["received", "documents checked", "inspection", "duties assessed", "released"];

export default async ({ declaration }: z.infer<typeof inputSchema>) => {
  const number = Number(declaration.slice(3));
  const step = (number + Math.floor(Date.now() / 3_600_000)) % steps.length;
  return { declaration, status: steps[step], step: step + 1, of: steps.length, released: step === steps.length - 1 };
};
