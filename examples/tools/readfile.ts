import { readFile } from "node:fs/promises";
import { z } from "zod";

export const description = "Reads a file as text, or as base64 if it is binary.";
export const hint = "Set maxLines to see only the beginning of a long file.";
export const category = "files";
export const modes = ["read", "write"];

// Permissions that the operator must grant in toolyard.yaml:
//   scripts: {grants: {readfile: {read: [data]}}}
export const permissions = { read: ["data"] };

export const inputSchema = z.object({
  filepath: z.string().min(1).describe("The path of the file"),
  encoding: z.enum(["utf8", "ascii", "base64"]).default("utf8").describe("Encoding of the result"),
  maxLines: z.int().min(1).optional().describe("Maximum number of lines; default all. Not for base64"),
});

export default async ({ filepath, encoding, maxLines }: z.infer<typeof inputSchema>) => {
  try {
    const text = await readFile(filepath, encoding);
    if (maxLines === undefined || encoding === "base64") return text;
    return text.split("\n").slice(0, maxLines).join("\n");
  } catch (e) {
    return { isError: true, error: `Failed to read file: ${e instanceof Error ? e.message : e}` };
  }
};
