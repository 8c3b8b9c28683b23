import type { LinkProps } from "@tanstack/react-router";
import type { ServerItem, ToolItem } from "../api/types";

/** A search suggestion. */
export type Destination = { key: string; name: string; kind: string; link: Pick<LinkProps, "to" | "params" | "search">; /** An exact match, which Enter opens. */ exact?: boolean };

const maxServers = 4;

/** Reports whether a text looks like a call ID: 26 base32 characters. */
export function isCallId(text: string): boolean {
  return /^[0-9a-z]{26}$/.test(text);
}

/** The suggestions for a text: a call by ID, servers by ID, then tools. */
export function destinations(text: string, servers: Pick<ServerItem, "id">[], tools: Pick<ToolItem, "server" | "name">[]): Destination[] {
  if (text === "") return [];
  if (isCallId(text)) return [{ key: "call", name: text, kind: "Call", exact: true, link: { to: "/calls/$id", params: { id: text } } }];
  const words = text.toLowerCase();
  const named = servers.filter(({ id }) => id.toLowerCase().includes(words)).sort((a, b) => Number(b.id === text) - Number(a.id === text)).slice(0, maxServers);
  return [
    ...named.map(({ id }): Destination => ({ key: `server ${id}`, name: id, kind: "Server", exact: id === text && !tools.some(({ name }) => name === text), link: { to: "/servers/$id", params: { id } } })),
    ...tools.map(({ server, name }): Destination => ({ key: `tool ${server}/${name}`, name: server ? `${server} / ${name}` : name, kind: "Tool", link: { to: "/tools/$source/$name", params: { source: server ?? "-", name } } })),
  ];
}
