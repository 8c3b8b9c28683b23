import { z } from "zod";

export const description = "Adds two numbers.";
export const modes = ["read", "write"];
export const inputSchema = z.object({ a: z.number(), b: z.number() });
export default async ({ a, b }: z.infer<typeof inputSchema>) => a + b;
