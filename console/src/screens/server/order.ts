import type { ServerItem } from "../../api/types";

/** The filters of the list: a state, or servers with pending definitions. */
export const views = ["all", "up", "starting", "down", "waiting"] as const;
export type View = (typeof views)[number];

export function isView(text: string | undefined): text is View {
  return (views as readonly (string | undefined)[]).includes(text);
}

export function inView(server: ServerItem, view: View): boolean {
  if (view === "all") return true;
  return view === "waiting" ? server.waiting > 0 : server.state === view;
}

/** Reports whether a server's ID, name, target or error contains a text. */
export function matches(server: ServerItem, text: string): boolean {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const all = [server.id, server.name, server.target, server.transport, server.error].join(" ").toLowerCase();
  return words.every((word) => all.includes(word));
}

/** Sorts servers that are down first, then those with pending definitions, then by ID. */
export function byUrgency(servers: ServerItem[]): ServerItem[] {
  return servers.toSorted((a, b) => need(a) - need(b) || a.id.localeCompare(b.id, "en", { numeric: true }));
}

function need(server: ServerItem): number {
  if (server.state === "down") return 0;
  if (server.waiting > 0) return 1;
  return server.state === "starting" ? 2 : 3;
}
