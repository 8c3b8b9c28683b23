// An AI SDK tool: it runs here and in programs that use that library.
import { tool } from "ai";
import { z } from "zod";

export const category = "text";
export const modes = ["read", "write"];

export default tool({
  description: "Counts the characters, words and lines of a text and estimates the reading time.",
  inputSchema: z.object({
    text: z.string().describe("The text to count"),
    wordsPerMinute: z.int().min(50).max(1000).default(230).describe("Reading speed"),
  }),
  execute: async ({ text, wordsPerMinute }) => {
    const words = text.match(/[\p{L}\p{N}]+(?:['’-][\p{L}\p{N}]+)*/gu)?.length ?? 0;
    return {
      characters: [...text].length,
      words,
      lines: text === "" ? 0 : text.split("\n").length,
      minutes: Math.ceil(words / wordsPerMinute),
    };
  },
});
