// The JSON file of the same name declares the tools: for each, its name, its description and
// the JSON Schema of its parameters. The exported function of that name runs it.
import type { Context } from "toolyard";

// These hold for all tools of the file.
export const category = "text";
export const modes = ["read", "write"];

export function Shorten({ text, length = 80 }: { text: string; length?: number }) {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}

export function WhoAmI(_: object, ctx: Context) {
  if (!ctx.authorized) throw new Error("Nobody is signed in.");
  return { user: ctx.authorized.user_id, roles: ctx.authorized.roles };
}
