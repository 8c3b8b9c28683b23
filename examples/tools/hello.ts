import { z } from "zod";

export const description = "Greets a person by name.";
export const category = "basics";
export const modes = ["read", "write"]; // it changes nothing, so any gate may offer it

export const inputSchema = z.object({
  name: z.string().min(1).describe("Name to greet"),
  greeting: z.string().default("Hello").describe("Greeting to use"),
});

export default async ({ name, greeting }: z.infer<typeof inputSchema>) => `${greeting}, ${name}!`;
