// Signing in with an issuer. The browser leaves the console and comes back to /console/signin/NAME
// with the issuer's response. The secret in localStorage, which other origins cannot read or write,
// proves that the sign-in began here; any page can send a browser to that address.
import { completeSignIn, startSignIn } from "./actions";
import { storeSecret } from "./secret";
import type { Me } from "./types";

const name = "toolyard.signin";
const home = "/console/";
const callback = "/console/signin/";
const connect = "/console/connections/"; // followed by a server; the fragment contains the link's ticket

type Pending = { secret: string; back: string };

/** Leaves the console to sign in with an issuer, and comes back to the current page. */
export async function leaveToSignIn(issuer: string): Promise<void> {
  const { address, secret } = await startSignIn(issuer);
  localStorage.setItem(name, JSON.stringify({ secret, back: location.pathname + location.search + location.hash } satisfies Pending));
  location.assign(address);
}

/** The console page to go back to. If the path is not one, it is the start page. */
export function pageOf(path: unknown): string {
  if (typeof path !== "string" || !URL.canParse(path, location.origin)) return home;
  const { origin, pathname, search, hash } = new URL(path, location.origin);
  const isPage = origin === location.origin && (pathname + "/").startsWith(home) && !pathname.startsWith(callback);
  return isPage ? pathname + search + (pathname.startsWith(connect) && hash.startsWith("#ticket=") ? hash : "") : home;
}

function takePending(): Pending {
  try {
    const text = localStorage.getItem(name);
    localStorage.removeItem(name);
    const { secret, back } = JSON.parse(text ?? "{}") as Partial<Pending>;
    return { secret: typeof secret === "string" ? secret : "", back: pageOf(back) };
  } catch {
    return { secret: "", back: home };
  }
}

/**
 * Completes a sign-in if this page is the response of an issuer. The response is removed from the
 * URL and the history first.
 */
export async function takeIssuerResponse(): Promise<Me | undefined> {
  if (!location.pathname.startsWith(callback)) return undefined;
  const issuer = decodeURIComponent(location.pathname.slice(callback.length).replace(/\/$/, ""));
  const query = new URLSearchParams(location.search);
  const { secret, back } = takePending();
  history.replaceState(null, "", back);
  const text = (parameter: string) => query.get(parameter) ?? undefined;
  const { pageSecret, ...me } = await completeSignIn({ issuer, secret, state: text("state") ?? "", code: text("code"), iss: text("iss"), error: text("error") });
  storeSecret(pageSecret);
  return me;
}
