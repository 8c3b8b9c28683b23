// Unsent arguments per tool, restored when the user returns to the form. They are kept only in
// memory.
import type { JsonObject } from "../../api/json";

type Draft = { args: JsonObject; gate: string };

const maxDrafts = 30;
const drafts = new Map<string, Draft>();

export function draftOf(source: string, name: string): Draft | undefined {
  return drafts.get(`${source}/${name}`);
}

export function storeDraft(source: string, name: string, draft: Draft) {
  const key = `${source}/${name}`;
  drafts.delete(key);
  drafts.set(key, draft);
  for (const oldest of drafts.keys()) {
    if (drafts.size <= maxDrafts) break;
    drafts.delete(oldest);
  }
}
