import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";

const name = "toolyard.theme";
const listeners = new Set<() => void>();

/** The chosen theme; the default is the system's theme. */
export function theme(): Theme {
  try {
    const stored = localStorage.getItem(name);
    return stored === "light" || stored === "dark" ? stored : "system";
  } catch {
    return "system"; // storage is blocked
  }
}

export function setTheme(next: Theme) {
  try {
    if (next === "system") localStorage.removeItem(name);
    else localStorage.setItem(name, next);
  } catch {
    // Storage is blocked: the theme lasts until the page is closed.
  }
  showTheme(next);
  for (const each of listeners) each();
}

export function showTheme(next: Theme = theme()) {
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
}

export function useTheme(): Theme {
  return useSyncExternalStore((changed) => {
    listeners.add(changed);
    return () => void listeners.delete(changed);
  }, theme);
}
