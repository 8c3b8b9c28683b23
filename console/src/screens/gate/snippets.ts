import type { Gate } from "../../api/types";

export type Snippet = { id: string; label: string; file?: string; about?: string; text: string };

const variable = "TOOLYARD_KEY";

/** Client configurations for a gate. They refer to the key with a variable or a prompt, and never contain it. */
export function snippets(gate: Pick<Gate, "name" | "path" | "callers">, origin: string): Snippet[] {
  const url = origin + gate.path;
  const name = `toolyard-${gate.name}`;
  const keys = gate.callers === "keys";
  return [
    { id: "claude-code", label: "Claude Code", about: keys ? `In a shell where ${variable} holds the key:` : "In a shell:", text: claudeCode(name, url, keys) },
    { id: "cursor", label: "Cursor", file: "~/.cursor/mcp.json", text: json({ mcpServers: { [name]: { url, ...(keys && { headers: bearer(`\${env:${variable}}`) }) } } }) },
    { id: "vscode", label: "VS Code", file: ".vscode/mcp.json", text: json(vsCode(name, url, keys)) },
    { id: "json", label: "Other clients", about: "Most clients accept this format:", text: json({ mcpServers: { [name]: { type: "http", url, ...(keys && { headers: bearer(`<${variable}>`) }) } } }) },
  ];
}

const bearer = (key: string) => ({ Authorization: `Bearer ${key}` });
const json = (value: unknown) => JSON.stringify(value, null, 2);

function claudeCode(name: string, url: string, keys: boolean): string {
  const add = `claude mcp add --transport http ${name} ${url}`;
  return keys ? `${add} \\\n  --header "Authorization: Bearer $${variable}"` : add;
}

function vsCode(name: string, url: string, keys: boolean) {
  if (!keys) return { servers: { [name]: { type: "http", url } } };
  return {
    inputs: [{ type: "promptString", id: "toolyard-key", description: "Toolyard API key", password: true }],
    servers: { [name]: { type: "http", url, headers: bearer("${input:toolyard-key}") } },
  };
}
