import type { ToolsetBody, ToolsetServer } from "../../api/types";

/** The contents of a toolset: local tools, whole servers or some of their tools, and packs. */
export type Selection = { tools: string[]; servers: ToolsetServer[]; packs: string[] };
/** How a tool is selected: by name, with its whole server, or not at all. */
export type ToolState = "named" | "whole" | "no";

export const emptySelection: Selection = { tools: [], servers: [], packs: [] };

/** Valid names for toolsets and gates. */
export const namePattern = /^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$/;
export const nameHint = "lowercase letters, digits and hyphens, at most 32 characters";

export function selectionOf({ tools = [], servers = [], packs = [] }: ToolsetBody): Selection {
  return { tools, servers, packs };
}

/** A selection for the API, with empty members removed. */
export function bodyOf({ tools, servers, packs }: Selection): ToolsetBody {
  const filled = <T>(list: T[]) => (list.length > 0 ? list : undefined);
  return { tools: filled(tools), servers: filled(servers), packs: filled(packs) };
}

export const isWhole = (pick: ToolsetServer) => !pick.tools || pick.tools.length === 0;

export function toolState(selection: Selection, server: string | undefined, name: string): ToolState {
  if (server === undefined) return selection.tools.includes(name) ? "named" : "no";
  const entries = selection.servers.filter((pick) => pick.id === server);
  if (entries.some(isWhole)) return "whole";
  return entries.some((pick) => pick.tools?.includes(name)) ? "named" : "no";
}

/** How much of a server is selected. */
export function serverState(selection: Selection, id: string): "whole" | "some" | "no" {
  const entries = selection.servers.filter((pick) => pick.id === id);
  if (entries.some(isWhole)) return "whole";
  return entries.length > 0 ? "some" : "no";
}

/** Selects or deselects one tool. It has no effect on a server that is selected as a whole. */
export function withTool(selection: Selection, server: string | undefined, name: string, on: boolean): Selection {
  if (server === undefined) return { ...selection, tools: toggled(selection.tools, name, on) };
  const state = serverState(selection, server);
  if (state === "whole") return selection;
  if (state === "no") return on ? { ...selection, servers: [...selection.servers, { id: server, tools: [name] }] } : selection;
  const first = selection.servers.findIndex((pick) => pick.id === server);
  const servers = selection.servers
    .map((pick, i) => (pick.id === server && (!on || i === first) ? { ...pick, tools: toggled(pick.tools ?? [], name, on) } : pick))
    .filter((pick) => pick.id !== server || !isWhole(pick));
  return { ...selection, servers };
}

/** Selects a whole server, including its future tools, or deselects it. */
export function withServer(selection: Selection, id: string, on: boolean): Selection {
  if (!on) return { ...selection, servers: selection.servers.filter((pick) => pick.id !== id) };
  return { ...selection, servers: replaced(selection.servers, id, ({ tools: _, ...pick }) => pick) };
}

/** Selects all tools and resources of a pack, or deselects it. */
export function withPack(selection: Selection, name: string, on: boolean): Selection {
  return { ...selection, packs: toggled(selection.packs, name, on) };
}

/** Selects exactly the given tools of a server. */
export function withTools(selection: Selection, id: string, tools: string[]): Selection {
  if (tools.length === 0) return withServer(selection, id, false);
  return { ...selection, servers: replaced(selection.servers, id, (pick) => ({ ...pick, tools })) };
}

/** Replaces all entries of a server with one, at the position of the first, or at the end. */
function replaced(servers: ToolsetServer[], id: string, make: (pick: ToolsetServer) => ToolsetServer): ToolsetServer[] {
  const first = servers.find((pick) => pick.id === id);
  if (!first) return [...servers, make({ id })];
  return servers.filter((pick) => pick.id !== id || pick === first).map((pick) => (pick === first ? make(pick) : pick));
}

function toggled(names: string[], name: string, on: boolean): string[] {
  if (!on) return names.filter((each) => each !== name);
  return names.includes(name) ? names : [...names, name];
}

/** Reports whether two selections are equal, ignoring the order. */
export function same(a: Selection, b: Selection): boolean {
  return canonical(a) === canonical(b);
}

function canonical({ tools, servers, packs }: Selection): string {
  const picks = servers.map(({ id, tools: some = [], resources = [] }) => JSON.stringify([id, some.toSorted(), resources.toSorted()]));
  return JSON.stringify([tools.toSorted(), picks.toSorted(), packs.toSorted()]);
}

/** A short description: "2 local tools, all of jira, 3 of github". */
export function summarize({ tools, servers, packs }: Selection, most = 3): string {
  const words = servers.map((pick) => (isWhole(pick) ? `all of ${pick.id}` : `${pick.tools?.length} of ${pick.id}`));
  words.push(...packs.map((name) => `pack ${name}`));
  if (tools.length > 0) words.unshift(tools.length === 1 ? "1 local tool" : `${tools.length} local tools`);
  if (words.length === 0) return "no tools";
  if (words.length <= most) return words.join(", ");
  return `${words.slice(0, most).join(", ")} and ${words.length - most} more`;
}
