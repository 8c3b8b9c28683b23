import { createContext, use } from "react";
import type { Me } from "./api/types";

/** Whether someone is signed in. */
export function isKnown(me: Me): boolean {
  return me.role !== "anonymous";
}

/** Whether someone may see the whole yard, and not only what concerns their own account. */
export function maySee(me: Me): boolean {
  return me.role === "operator" || me.role === "viewer";
}

/** Who the screens are shown to, also while their sign-in has ended and is made again. */
export const Reader = createContext<Me | undefined>(undefined);

/** Who is signed in. Screens are only shown once this is known. */
export function useMe(): Me | undefined {
  return use(Reader);
}

/** Whether who is signed in may see the whole yard; for the others nothing is asked of it that it would refuse. */
export function useMaySee(): boolean {
  const me = useMe();
  return me !== undefined && maySee(me);
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
