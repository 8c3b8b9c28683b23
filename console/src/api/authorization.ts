// The authorization server's response after the user signed in there to connect to a server. The
// yard redirects the browser to /console/connections with the response in the fragment.
import { completeConnection } from "./actions";
import { ApiError } from "./client";
import type { ConnectedServer } from "./types";

const page = "/console/connections";

let response: string | undefined;
let completion: Promise<ConnectedServer> | undefined;

/** Takes the response from the URL, and removes it from the URL and the history. */
export function takeAuthorizationResponse() {
  if (location.pathname.replace(/\/$/, "") !== page || !new URLSearchParams(location.hash.slice(1)).has("state")) return;
  response = location.hash.slice(1);
  history.replaceState(null, "", page);
}

/** Reports whether this page was opened with a response. */
export const hasAuthorizationResponse = () => response !== undefined;

/** Sends the response to the yard, once. A user whose sign-in to the console has expired signs in again first. */
export function completeAuthorization(): Promise<ConnectedServer> {
  completion ??= completeConnection(response ?? "").catch((error: unknown) => {
    if (error instanceof ApiError && error.status === 401) completion = undefined;
    throw error;
  });
  return completion;
}
