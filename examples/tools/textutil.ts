import { z } from "zod";

export const description = "Changes the case of a text, or reverses the text.";
export const category = "basics";
export const modes = ["read", "write"];

export const inputSchema = z.object({
  text: z.string().describe("The text to change"),
  case: z.enum(["upper", "lower", "title", "reverse"]).describe("What to do with it"),
  repeat: z.int().min(1).max(10).default(1).describe("How often to do it"),
});

const changes = {
  upper: (text: string) => text.toUpperCase(),
  lower: (text: string) => text.toLowerCase(),
  title: (text: string) =>
    text.toLowerCase().replace(/(^|\s)(\S)/gu, (_, space: string, first: string) => space + first.toUpperCase()),
  reverse: (text: string) => [...text].reverse().join(""), // by character, so that emoji stay whole
};

export default async (args: z.infer<typeof inputSchema>) => {
  let { text } = args;
  for (let i = 0; i < args.repeat; i++) text = changes[args.case](text);
  return text;
};
