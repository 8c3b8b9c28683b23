import { useQuery } from "@tanstack/react-query";
import { queries } from "./api/queries";
import type { Me } from "./api/types";

/** Whether someone may see the yard. */
export function maySee(me: Me): boolean {
  return me.role === "operator" || me.role === "viewer";
}

/** Who is signed in. Screens are only shown once this is known. */
export function useMe(): Me | undefined {
  return useQuery(queries.me()).data;
}

/** Whether who is signed in may change things; buttons that change are hidden without. */
export function useMayChange(): boolean {
  return useMe()?.role === "operator";
}

/**
 * Takes a key from the address, where the command line may have put it after "#key=", and
 * removes it from there and from the history, so that it is neither shared nor kept.
 */
export function takeKeyFromAddress(): string | undefined {
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (!key) return undefined;
  history.replaceState(null, "", location.pathname + location.search);
  return key;
}
