import { lazy, Suspense, useSyncExternalStore } from "react";
import { ApiError } from "../api/client";

export type Message = { tone: "good" | "bad"; text: string };

// Messages are queued until ToastList is loaded, which the first message triggers.
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

/** Shows a short notification about the result of an action. */
export const toast = {
  good: (text: string) => push({ tone: "good", text }),
  bad: (cause: unknown) => push({ tone: "bad", text: cause instanceof ApiError || cause instanceof Error ? cause.message : String(cause) }),
};

/** Delivers queued and future messages to a listener. */
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
