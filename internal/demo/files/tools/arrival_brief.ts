import type { Context, Meta } from "toolyard";
import { z } from "zod";

export const title = "Arrival brief";
export const description = "Summarizes what a dispatcher needs before a ship arrives: distance, tide and customs.";
export const hint = "One call of this instead of one for each of the tools that it asks.";
export const category = "operations";
export const modes = ["read", "write"];
export const _meta: Meta = { latencyClass: "slow" };

const port = z.enum(["NLRTM", "BEANR", "DEHAM", "FRLEH", "GRPIR", "NOOSL"]);

export const inputSchema = z.object({
  ship: z.string().min(2).max(60).describe("Name of the ship"),
  from: port.describe("Port of origin"),
  to: port.describe("Port of destination"),
  draught: z.number().min(1).max(20).default(10).describe("In metres"),
  declaration: z.string().regex(/^HD-\d{6}$/).optional().describe("Customs declaration of its cargo, such as HD-204518"),
});

// Each call below is a separate call, with the gate's rules, limits and record.
export default async ({ ship, from, to, draught, declaration }: z.infer<typeof inputSchema>, ctx: Context) => {
  const [own, customs] = await Promise.all([
    ctx.mcp.callToolsParallel("", [
      { name: "port_distance", arguments: { from, to } },
      { name: "tide_window", arguments: { port: to, draught } },
    ]),
    declaration === undefined ? undefined : ctx.mcp.callTool("customs", "clearance_status", { declaration }),
  ]);
  const [distance, tide] = own;
  const told = (answer?: { isError?: boolean; structuredContent?: unknown }) => (answer && !answer.isError ? answer.structuredContent : null);
  return { ship, distance: told(distance), tide: told(tide), customs: told(customs) };
};
