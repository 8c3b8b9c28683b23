import { useSyncExternalStore } from "react";
import { absolute, elapsed, relative } from "../format";

// One timer for the whole page, shared by all rows.
const listeners = new Set<() => void>();
let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(listener: () => void) {
  listeners.add(listener);
  if (timer === undefined) {
    now = Date.now();
    timer = setInterval(() => {
      now = Date.now();
      for (const each of listeners) each();
    }, 5000);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The time since a moment, without "ago". The tooltip shows the exact time. */
export function Since({ at }: { at: string | undefined }) {
  const current = useSyncExternalStore(subscribe, () => now);
  if (!at) return <span className="faint">—</span>;
  return <time dateTime={at} title={absolute(at)} className="Time">{elapsed(at, current)}</time>;
}

/** A relative time. The tooltip shows the exact time. */
export function Time({ at }: { at: string | undefined }) {
  const current = useSyncExternalStore(subscribe, () => now);
  if (!at) return <span className="faint">—</span>;
  return (
    <time dateTime={at} title={absolute(at)} className="Time">
      {relative(at, current)}
    </time>
  );
}
