import { type Dispatch, type SetStateAction, useMemo, useState } from "react";
import { same, type Selection } from "./selection";

/** What a toolset was when somebody looked at it, and the version of the edits then. */
export type Snapshot = { selection: Selection; version: number };

export type Draft = {
  base: Snapshot;
  draft: Selection;
  setDraft: Dispatch<SetStateAction<Selection>>;
  dirty: boolean;
  /** Somebody else has changed the toolset since, into what latest says. */
  conflict: boolean;
  discard: () => void;
  /** Keeps the draft, to be saved over what others did. */
  keepMine: () => void;
  takeTheirs: () => void;
};

/**
 * A draft over what the yard says. Changes of others are taken over silently as long as they
 * do not touch what is being edited; those that do are a conflict that the person resolves.
 */
export function useDraft(latest: Snapshot): Draft {
  const [base, setBase] = useState(latest);
  const [draft, setDraft] = useState(latest.selection);
  const dirty = useMemo(() => !same(draft, base.selection), [draft, base.selection]);
  const touched = useMemo(() => !same(latest.selection, base.selection), [latest.selection, base.selection]);
  const agreed = useMemo(() => same(latest.selection, draft), [latest.selection, draft]);
  const conflict = touched && dirty && !agreed;
  if (!conflict && (touched || latest.version !== base.version)) {
    setBase(latest);
    if (!dirty) setDraft(latest.selection);
  }
  return {
    base,
    draft,
    setDraft,
    dirty,
    conflict,
    discard: () => setDraft(base.selection),
    keepMine: () => setBase(latest),
    takeTheirs: () => {
      setBase(latest);
      setDraft(latest.selection);
    },
  };
}
