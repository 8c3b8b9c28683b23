import type { Permissions } from "toolyard";
import { z } from "zod";

export const description = "Looks up a page in an API.";
export const modes = ["read", "write"];
export const timeout = 10_000; // milliseconds

// Permissions that the operator must grant in toolyard.yaml:
//   scripts: {grants: {NAME: {net: [api.example.com], env: [API_TOKEN]}}}
export const permissions: Permissions = { net: ["api.example.com"], env: ["API_TOKEN"] };

export const inputSchema = z.object({
  id: z.string().regex(/^\w+$/).describe("The id of the page"),
});

// Validate responses of other services.
const pageSchema = z.object({ title: z.string(), text: z.string() });

export default async ({ id }: z.infer<typeof inputSchema>) => {
  const response = await fetch(`https://api.example.com/pages/${id}`, {
    headers: { authorization: `Bearer ${process.env.API_TOKEN}` },
    signal: AbortSignal.timeout(5_000),
  });
  // Return an error object if the model can correct it; throw otherwise.
  if (response.status === 404) return { isError: true, error: `Page ${id} does not exist.` };
  if (!response.ok) throw new Error(`the API responded with status ${response.status}`);
  return pageSchema.parse(await response.json());
};
