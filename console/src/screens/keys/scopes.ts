// Key scopes and their descriptions.

export type ConsoleAccess = "none" | "viewer" | "operator";

export type Choice = {
  /** All gates, or only the named ones. */
  everyGate: boolean;
  gates: string[];
  write: boolean;
  access: ConsoleAccess;
};

/** The explicit scopes for a choice. */
export function scopesOf({ everyGate, gates, write, access }: Choice): string[] {
  const allowed = everyGate ? ["gate:*"] : gates.map((gate) => `gate:${gate}`);
  return [...allowed, ...(write ? ["write"] : []), ...(access === "none" ? [] : [access])];
}

/** Describes a key's permissions, one sentence each. */
export function describeScopes(scopes: string[]): string[] {
  const gates = scopes.filter((scope) => scope.startsWith("gate:")).map((scope) => scope.slice(5));
  const where = gates.length === 0 || gates.includes("*") ? "every gate" : `the ${gates.length === 1 ? "gate" : "gates"} ${gates.join(", ")}`;
  const has = (scope: string) => scopes.includes(scope) || scopes.includes("all");
  const calls = has("write") ? `Can call tools at ${where}, including write tools.` : `Can call read-only tools at ${where}.`;
  return [calls, has("operator") ? "Can view and change everything in the console." : has("viewer") ? "Can view everything in the console." : "Can view its own calls, spend and links in the console."];
}

export const lifetimes = [
  { value: "24h", label: "1 day" },
  { value: "168h", label: "7 days" },
  { value: "720h", label: "30 days" },
  { value: "2160h", label: "90 days" },
  { value: "8760h", label: "1 year" },
  { value: "", label: "Never" },
];

const callerName = /^[A-Za-z0-9][A-Za-z0-9._@:/+-]{0,127}$/;

/** The error in a caller or account name, if any. Empty names are not an error here. */
export function nameError(name: string): string | undefined {
  if (name === "" || callerName.test(name)) return undefined;
  return "Use letters, digits and . _ @ : / + -, at most 128 characters, starting with a letter or digit.";
}
