import { createContext, use } from "react";
import type { Me } from "./api/types";

/** Whether someone is signed in. */
export function isSignedIn(me: Me): boolean {
  return me.role !== "anonymous";
}

/** Whether someone may see the whole yard, and not only what concerns their own account. */
export function canView(me: Me): boolean {
  return me.role === "operator" || me.role === "viewer";
}

/** Who the screens are shown to, also while their sign-in has ended and is made again. */
export const MeContext = createContext<Me | undefined>(undefined);

/** Who is signed in. Screens are only shown once this is known. */
export function useMe(): Me | undefined {
  return use(MeContext);
}

/** Whether who is signed in may see the whole yard; for the others nothing is asked of it that it would refuse. */
export function useCanView(): boolean {
  const me = useMe();
  return me !== undefined && canView(me);
}

/** Whether who is signed in may change things; buttons that change are hidden without. */
export function useCanChange(): boolean {
  return useMe()?.role === "operator";
}

const linkToken = /^tyl_[A-Za-z0-9]+$/;

/**
 * Takes the token of a sign-in link from the address, where the command line puts it after
 * "#key=", and removes it from there and from the history. Only a token that the yard made for
 * its own link is taken: any page can link here with an API key of its author, and whoever
 * followed that link would work as somebody else without knowing.
 */
export function takeSignInLink(): { token?: string; refused: boolean } {
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (!key) return { refused: false };
  history.replaceState(null, "", location.pathname + location.search);
  return linkToken.test(key) ? { token: key, refused: false } : { refused: true };
}
