// The page secret of a sign-in. Browsers send the sign-in cookie to every port of this host, so
// the yard also requires this secret. It is in localStorage, which other origins cannot read and
// all tabs of the console share.
const name = "toolyard.page";

export const header = "Toolyard-Page-Secret";

let memorySecret = ""; // fallback if the browser has no storage

export function storeSecret(secret: string) {
  memorySecret = secret;
  try {
    localStorage.setItem(name, secret);
  } catch {
    // Storage is blocked: the secret stays in memory.
  }
}

/** The page secret; empty if there is no sign-in. */
export function pageSecret(): string {
  try {
    return localStorage.getItem(name) ?? "";
  } catch {
    return memorySecret;
  }
}

/** Deletes a secret, unless another tab has signed in since and replaced it. */
export function forgetSecret(secret = pageSecret()) {
  if (pageSecret() !== secret) return;
  memorySecret = "";
  try {
    localStorage.removeItem(name);
  } catch {
    // Storage is blocked: the secret was in memory.
  }
}
