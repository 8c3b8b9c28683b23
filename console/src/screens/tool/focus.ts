import { type RefObject, useEffect } from "react";

const controls = "input:not([type=hidden]), select, textarea, button";

/** Moves the focus to the first field with an error after each validation that found one. */
export function useFocusOnFault(form: RefObject<HTMLElement | null>, found: boolean, run: number) {
  useEffect(() => {
    if (!found) return;
    const frame = requestAnimationFrame(() => reveal(firstFault(form.current))); // waits until the form has rendered the errors
    return () => cancelAnimationFrame(frame);
  }, [form, run]); // does not depend on found: the focus must stay while the user corrects errors
}

/** The first error's control: the invalid control, or the first control in the group with the message. */
function firstFault(form: HTMLElement | null): HTMLElement | null {
  const found = form?.querySelector<HTMLElement>("[aria-invalid=true], .Field-error") ?? null;
  if (!found?.classList.contains("Field-error")) return found;
  return found.parentElement?.querySelector<HTMLElement>(controls) ?? found;
}

/** Focuses a field whose text cannot be parsed, such as an incomplete number; reports whether there is one. */
export function focusUnparsable(form: HTMLElement | null): boolean {
  const found = form?.querySelector<HTMLElement>("[data-unreadable]") ?? null;
  reveal(found);
  return found !== null;
}

function reveal(element: HTMLElement | null) {
  element?.focus({ preventScroll: true });
  element?.scrollIntoView({ block: "center" });
}
