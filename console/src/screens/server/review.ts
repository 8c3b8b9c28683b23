import { isObject, type Json } from "../../api/json";
import type { PendingKind, PendingTool, ToolHash } from "../../api/types";
import { visible } from "../../format/visible";

/** Splits a definition into its description and the rest. */
export function parts(definition: Json | undefined): { text: string; rest: Json | undefined } {
  if (!isObject(definition)) return { text: "", rest: definition };
  const { description, ...rest } = definition;
  if (typeof description === "string") return { text: description, rest };
  return { text: "", rest: definition };
}

/** Reports whether a value contains invisible characters. */
export function hidesText(value: Json | undefined): boolean {
  if (typeof value === "string") return visible(value) !== value;
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(value).some(([name, member]) => visible(name) !== name || hidesText(member));
}

const maxPreviewLength = 160; // characters of a value in the summary; the diff has the full value

/** A changed value on one line. */
export function preview(value: Json): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return visible(text.length > maxPreviewLength ? `${text.slice(0, maxPreviewLength)}…` : text);
}

/** The changed members: "description, inputSchema and 2 more". */
export function changedMembers({ changes = [] }: PendingTool): string {
  const members = [...new Set(changes.map((change) => change.path.split(/[/.]/).find(Boolean) ?? "everything"))];
  if (members.length <= 3) return members.join(", ");
  return `${members.slice(0, 2).join(", ")} and ${members.length - 2} more`;
}

export const canApprove = (each: PendingTool) => each.kind !== "refused";
export const picks = (list: PendingTool[]): ToolHash[] => list.map(({ tool, hash }) => ({ tool, hash }));
/** A pending definition's key. A new version of the same tool has a different key. */
export const keyOf = ({ tool, hash }: ToolHash) => `${tool} ${hash}`;

const approvalEffects: Record<PendingKind, string> = {
  changed: "Tools whose definitions changed are offered again, with the new definitions.",
  new: "New definitions are offered at every gate that includes them.",
  gone: "Approvals of definitions that no longer exist are removed.",
  refused: "",
};
const rejectionEffects: Record<PendingKind, string> = {
  changed: "Changed definitions stay withheld until the server changes them again.",
  new: "New definitions stay withheld until they change.",
  gone: "Approvals of definitions that no longer exist are kept.",
  refused: "Refused definitions stay withheld and are no longer pending.",
};

/** Describes the effect of a decision, one sentence per kind of definition. */
export function consequences(list: PendingTool[], action: "approve" | "reject"): string[] {
  const words = action === "approve" ? approvalEffects : rejectionEffects;
  return (Object.keys(words) as PendingKind[]).filter((kind) => list.some((each) => each.kind === kind)).map((kind) => words[kind]);
}
