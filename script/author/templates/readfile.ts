import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Permissions } from "toolyard";
import { z } from "zod";

export const description = "Finds the notes that contain a text.";
export const modes = ["read", "write"];

// Grant the folder in toolyard.yaml:
//   scripts: {grants: {NAME: {read: [notes]}}}
export const permissions: Permissions = { read: ["notes"] };

export const inputSchema = z.object({
  text: z.string().min(1).describe("Text to find"),
});

export default async ({ text }: z.infer<typeof inputSchema>) => {
  const found: string[] = [];
  for (const entry of await readdir("notes", { withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const note = await readFile(join("notes", entry.name), "utf8");
    if (note.includes(text)) found.push(entry.name);
  }
  return { found };
};
