import { lazy, Suspense, useSyncExternalStore } from "react";
import { ApiError } from "../api/client";

export type Message = { tone: "good" | "bad"; text: string };

// Messages wait here until what shows them is loaded, which happens with the first one.
let queued: Message[] = [];
let needed = false;
let listener: ((message: Message) => void) | undefined;
const watchers = new Set<() => void>();

function push(message: Message) {
  if (listener) {
    listener(message);
    return;
  }
  queued.push(message);
  needed = true;
  for (const each of watchers) each();
}

/** Tells the reader, in a corner, what was done or why it was not. */
export const toast = {
  good: (text: string) => push({ tone: "good", text }),
  bad: (cause: unknown) => push({ tone: "bad", text: cause instanceof ApiError || cause instanceof Error ? cause.message : String(cause) }),
};

/** Hands over what waited, and all that comes, to what shows it. */
export function receiveToasts(next: (message: Message) => void): () => void {
  listener = next;
  for (const message of queued) next(message);
  queued = [];
  return () => {
    listener = undefined;
  };
}

const ToastList = lazy(() => import("./ToastList"));

function watch(changed: () => void) {
  watchers.add(changed);
  return () => void watchers.delete(changed);
}

export function Toasts() {
  const show = useSyncExternalStore(watch, () => needed);
  if (!show) return null;
  return (
    <Suspense>
      <ToastList />
    </Suspense>
  );
}
