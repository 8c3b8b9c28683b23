import { type RefObject, useEffect } from "react";

const controls = "input:not([type=hidden]), select, textarea, button";

/** Moves the focus to the first field with an error, each time that a run has found some. */
export function useFocusOnFault(form: RefObject<HTMLElement | null>, found: boolean, run: number) {
  useEffect(() => {
    if (!found) return;
    const frame = requestAnimationFrame(() => reveal(firstFault(form.current))); // the form shows errors a moment later
    return () => cancelAnimationFrame(frame);
  }, [form, run]); // while errors are being corrected, the focus stays
}

/** The control of the first error: the one that is marked, or one of the group that the message belongs to. */
function firstFault(form: HTMLElement | null): HTMLElement | null {
  const found = form?.querySelector<HTMLElement>("[aria-invalid=true], .Field-error") ?? null;
  if (!found?.classList.contains("Field-error")) return found;
  return found.parentElement?.querySelector<HTMLElement>(controls) ?? found;
}

/** Goes to a field whose text cannot be read, such as half of a number; reports whether there is one. */
export function focusUnparsable(form: HTMLElement | null): boolean {
  const found = form?.querySelector<HTMLElement>("[data-unreadable]") ?? null;
  reveal(found);
  return found !== null;
}

function reveal(element: HTMLElement | null) {
  element?.focus({ preventScroll: true });
  element?.scrollIntoView({ block: "center" });
}
