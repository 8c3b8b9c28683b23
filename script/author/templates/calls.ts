import type { Context } from "toolyard";
import { z } from "zod";

export const description = "Greets several people at once.";
export const modes = ["read", "write"]; // correct only if the tools that it calls only read

export const inputSchema = z.object({
  names: z.array(z.string().min(1)).min(1).max(20).describe("Names to greet"),
});

export default async ({ names }: z.infer<typeof inputSchema>, ctx: Context) => {
  // "" is this yard; the id of a server in toolyard.yaml works as well.
  // The calls run in parallel; the results are in the order of the calls.
  const calls = names.map((name) => ({ name: "hello", arguments: { name } }));
  const answers = await ctx.mcp.callToolsParallel("", calls);

  return answers.map((answer, i) => {
    const [first] = answer.content;
    const text = first?.type === "text" ? first.text : "";
    if (answer.isError) ctx.log.warn("no greeting", { name: names[i], text });
    return answer.isError ? `${names[i]}: ${text}` : text;
  });
};
