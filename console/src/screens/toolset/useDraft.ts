import { type Dispatch, type SetStateAction, useMemo, useState } from "react";
import { same, type Selection } from "./selection";

/** A toolset at a version of the edits. */
export type Snapshot = { selection: Selection; version: number };

export type Draft = {
  base: Snapshot;
  draft: Selection;
  setDraft: Dispatch<SetStateAction<Selection>>;
  dirty: boolean;
  /** Whether another operator has changed the toolset since; latest is the new state. */
  conflict: boolean;
  discard: () => void;
  /** Keeps the draft; saving it overwrites other operators' changes. */
  keepMine: () => void;
  takeTheirs: () => void;
};

/**
 * A draft based on the current state. Changes by others are merged silently while there are no
 * local edits; otherwise they are a conflict that the user resolves.
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
