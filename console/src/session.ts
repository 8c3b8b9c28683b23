import { createContext, use } from "react";
import type { Me } from "./api/types";

export function isSignedIn(me: Me): boolean {
  return me.role !== "anonymous";
}

/** Reports whether a caller can view the whole yard and not only its own account. */
export function canView(me: Me): boolean {
  return me.role === "operator" || me.role === "viewer";
}

/** The signed-in caller. It stays set while an expired sign-in is renewed. */
export const MeContext = createContext<Me | undefined>(undefined);

/** The signed-in caller; always set inside screens. */
export function useMe(): Me | undefined {
  return use(MeContext);
}

/** Reports whether the signed-in caller can view the whole yard. */
export function useCanView(): boolean {
  const me = useMe();
  return me !== undefined && canView(me);
}

/** Reports whether the signed-in caller is an operator. Controls that change something are hidden from others. */
export function useCanChange(): boolean {
  return useMe()?.role === "operator";
}

const linkToken = /^tyl_[A-Za-z0-9]+$/;

/**
 * Reads the token of a sign-in link ("#key=") and removes it from the URL and the history. It
 * accepts only one-time tokens of the yard: any page can link here with an API key of its author,
 * and a user who follows the link would unknowingly work as that caller.
 */
export function takeSignInLink(): { token?: string; refused: boolean } {
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (!key) return { refused: false };
  history.replaceState(null, "", location.pathname + location.search);
  return linkToken.test(key) ? { token: key, refused: false } : { refused: true };
}
