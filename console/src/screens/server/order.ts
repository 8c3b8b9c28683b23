import type { ServerItem } from "../../api/types";

/** What the list can be narrowed to: a state, or servers with definitions that wait. */
export const views = ["all", "up", "starting", "down", "waiting"] as const;
export type View = (typeof views)[number];

export function isView(text: string | undefined): text is View {
  return (views as readonly (string | undefined)[]).includes(text);
}

export function inView(server: ServerItem, view: View): boolean {
  if (view === "all") return true;
  return view === "waiting" ? server.waiting > 0 : server.state === view;
}

/** Whether a server answers to a text: by its id, what it calls itself, its target or its error. */
export function matches(server: ServerItem, text: string): boolean {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const all = [server.id, server.name, server.target, server.transport, server.error].join(" ").toLowerCase();
  return words.every((word) => all.includes(word));
}

/** Servers that need a person first: those that are down, those where something waits, then by id. */
export function byUrgency(servers: ServerItem[]): ServerItem[] {
  return servers.toSorted((a, b) => need(a) - need(b) || a.id.localeCompare(b.id, "en", { numeric: true }));
}

function need(server: ServerItem): number {
  if (server.state === "down") return 0;
  if (server.waiting > 0) return 1;
  return server.state === "starting" ? 2 : 3;
}
