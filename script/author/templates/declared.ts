// The JSON file with the same name declares the tools: name, description and JSON Schema of the
// parameters. The exported function with that name implements the tool.
import type { Context } from "toolyard";

// These apply to all tools of this file.
export const category = "text";
export const modes = ["read", "write"];

export function Shorten({ text, length = 80 }: { text: string; length?: number }) {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}

export function WhoAmI(_: object, ctx: Context) {
  if (!ctx.authorized) throw new Error("The caller is not authenticated.");
  return { user: ctx.authorized.user_id, roles: ctx.authorized.roles };
}
