/** The claims in a text that a person entered, or the reason why there are none. A token is not sent anywhere. */
export function claimsFrom(text: string): { claims?: Record<string, unknown>; problem?: string } {
  if (/^\s*(bearer\s+)?"?eyJ[\w-]*\./i.test(text)) return { problem: "This is a token. Paste its decoded payload instead: anyone who has the token can use it." };
  try {
    const claims: unknown = JSON.parse(text);
    if (typeof claims === "object" && claims !== null && !Array.isArray(claims)) return { claims: claims as Record<string, unknown> };
  } catch {
    // The error is reported below.
  }
  return { problem: "Enter a JSON object with the claims of a token." };
}
