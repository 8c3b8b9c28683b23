import { z } from "zod";

// For the model: what the tool does, and when to use it.
export const description = "Greets a person by name.";

// The tool only reads, so every gate may offer it. Without this line it counts as a write.
export const modes = ["read", "write"];

// Arguments are validated before the function runs.
export const inputSchema = z.object({
  name: z.string().min(1).describe("Name to greet"),
});

export default async ({ name }: z.infer<typeof inputSchema>) => `Hello, ${name}!`;
