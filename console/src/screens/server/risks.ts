// Heuristic risks in a definition, shown before approval. A definition can be harmful even if no
// risk is found here.
import { isObject, type Json, type JsonObject } from "../../api/json";
import type { PendingTool } from "../../api/types";
import { visible } from "../../format/visible";
import { hidesText } from "./review";

export type Risk = { title: string; detail: string };

// Phrases that give instructions to a model instead of describing the tool.
const orders = /\b(ignore|disregard|forget) (all|any|the|your|previous|prior)\b|\b(always|never|must|do not|don't) (call|use|pass|include|send|tell|mention|reveal|ask|show|forward|append|add|say)\b|\byou (must|should|are|will)\b|\bbefore (calling|using|answering|responding)\b|\b(system prompt|instructions?:|<important>|secretly|without (telling|asking|mentioning))\b/i;
const secrets = /\b(password|passphrase|api[ _-]?key|access token|secret|credential|private key|ssh key|\.env|cookie|e-?mail address|credit card)\b/i;
const address = /https?:\/\/([^\s/"'<>)]+)/gi;

/** A definition's risks, compared with the approved definition if there is one. */
export function risks({ approved, offered }: Pick<PendingTool, "approved" | "offered">): Risk[] {
  if (!isObject(offered)) return [];
  const before = isObject(approved) ? approved : undefined;
  return [...textRisks(before, offered), ...fieldRisks(before, offered), ...effectRisks(before, offered)];
}

function textRisks(before: JsonObject | undefined, now: JsonObject): Risk[] {
  const [old, text] = [before ? texts(before) : "", texts(now)];
  const found: Risk[] = [];
  const fresh = (pattern: RegExp) => pattern.exec(text)?.[0] !== undefined && pattern.exec(old)?.[0] !== pattern.exec(text)?.[0];
  if (fresh(orders)) found.push({ title: "Description instructs the model", detail: quote(text, orders) });
  if (fresh(secrets)) found.push({ title: "Asks for sensitive data", detail: quote(text, secrets) });
  const hosts = [...new Set([...text.matchAll(address)].map(([, host = ""]) => host))].filter((host) => !old.includes(host));
  if (hosts.length > 0) found.push({ title: "Mentions another host", detail: visible(hosts.slice(0, 5).join(", ")) });
  if (hidesText(now)) found.push({ title: "Contains invisible characters", detail: "Models read them. They are shown below as escapes such as ⟨U+200B⟩." });
  return found;
}

/** All texts that the model reads: descriptions and titles at any depth. */
function texts(value: Json, depth = 0): string {
  if (depth > 20 || typeof value !== "object" || value === null) return "";
  return Object.entries(value).map(([name, member]) => (typeof member === "string" ? (["description", "title"].includes(name) ? member : "") : texts(member, depth + 1))).filter(Boolean).join("\n");
}

function quote(text: string, pattern: RegExp): string {
  const at = pattern.exec(text)?.index ?? 0;
  const from = Math.max(0, text.lastIndexOf(".", at - 1) + 1, at - 100);
  const [line = ""] = text.slice(from).trimStart().split("\n");
  return `“${visible(line.slice(0, 160))}${line.length > 160 ? "…" : ""}”`;
}

const properties = (definition: JsonObject | undefined): JsonObject => (isObject(definition?.inputSchema) && isObject(definition.inputSchema.properties) ? definition.inputSchema.properties : {});
const required = (definition: JsonObject | undefined): string[] => (isObject(definition?.inputSchema) && Array.isArray(definition.inputSchema.required) ? definition.inputSchema.required.filter((name) => typeof name === "string") : []);

function fieldRisks(before: JsonObject | undefined, now: JsonObject): Risk[] {
  if (!before) return [];
  const [old, fresh] = [properties(before), properties(now)];
  const must = required(now).filter((name) => !required(before).includes(name));
  const added = Object.keys(fresh).filter((name) => !Object.hasOwn(old, name) && !must.includes(name));
  const retyped = Object.keys(fresh).filter((name) => Object.hasOwn(old, name) && JSON.stringify(typeOf(old[name])) !== JSON.stringify(typeOf(fresh[name])));
  return [
    ...listed("New required field", "New required fields", must),
    ...listed("New optional field", "New optional fields", added),
    ...listed("Field with a different type", "Fields with a different type", retyped),
  ];
}

const typeOf = (schema: Json | undefined): Json => (isObject(schema) ? (schema.type ?? null) : null);

function listed(one: string, many: string, names: string[]): Risk[] {
  return names.length === 0 ? [] : [{ title: names.length === 1 ? one : many, detail: visible(names.slice(0, 12).join(", ")) }];
}

function effectRisks(before: JsonObject | undefined, now: JsonObject): Risk[] {
  const hints = (definition: JsonObject | undefined) => (isObject(definition?.annotations) ? definition.annotations : {});
  const [old, fresh] = [hints(before), hints(now)];
  const found: Risk[] = [];
  if (before && old.readOnlyHint === true && fresh.readOnlyHint !== true) found.push({ title: "No longer declared read-only", detail: "annotations.readOnlyHint was true." });
  if (fresh.destructiveHint === true && old.destructiveHint !== true) found.push({ title: "Declared destructive", detail: "annotations.destructiveHint is true." });
  return found;
}
