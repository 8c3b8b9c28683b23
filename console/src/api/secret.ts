// The page secret of a sign-in. The cookie of the sign-in reaches every port of this host; this
// secret is kept in the storage of this origin, which other ports cannot read, and the yard wants
// both. Tabs of the console share it.
const name = "toolyard.page";

export const header = "Toolyard-Page-Secret";

let memorySecret = ""; // where the browser allows no storage, it lasts as long as the page

export function storeSecret(secret: string) {
  memorySecret = secret;
  try {
    localStorage.setItem(name, secret);
  } catch {
    // it is kept in memory
  }
}

/** The page secret, empty when nobody is signed in. */
export function pageSecret(): string {
  try {
    return localStorage.getItem(name) ?? "";
  } catch {
    return memorySecret;
  }
}

/** Forgets a secret that is no longer accepted, unless another tab has signed in meanwhile. */
export function forgetSecret(secret = pageSecret()) {
  if (pageSecret() !== secret) return;
  memorySecret = "";
  try {
    localStorage.removeItem(name);
  } catch {
    // it was kept in memory
  }
}
