// What a key is good for, as scopes and in words.

export type Reach = "none" | "viewer" | "operator";

export type Choice = {
  /** Every gate, or only those that are named. */
  everyGate: boolean;
  gates: string[];
  write: boolean;
  reach: Reach;
};

/** The scopes of a choice. They are always spelled out: a key without any would be good for every gate. */
export function scopesOf({ everyGate, gates, write, reach }: Choice): string[] {
  const entered = everyGate ? ["gate:*"] : gates.map((gate) => `gate:${gate}`);
  return [...entered, ...(write ? ["write"] : []), ...(reach === "none" ? [] : [reach])];
}

/** What scopes let their caller do, in a sentence each. */
export function scopeWords(scopes: string[]): string[] {
  if (scopes.length === 0) return ["Enters every gate, also those that write.", "Does not see this console."];
  const gates = scopes.filter((scope) => scope.startsWith("gate:")).map((scope) => scope.slice(5));
  const where = gates.length === 0 || gates.includes("*") ? "every gate" : `the ${gates.length === 1 ? "gate" : "gates"} ${gates.join(", ")}`;
  const may = scopes.includes("operator") ? "Sees this console, and changes what it can change." : scopes.includes("viewer") ? "Sees this console, and changes nothing." : "Does not see this console.";
  return [`Enters ${where}${scopes.includes("write") ? ", also to write" : " that only reads"}.`, may];
}

export const lifetimes = [
  { value: "24h", label: "A day" },
  { value: "168h", label: "A week" },
  { value: "720h", label: "30 days" },
  { value: "2160h", label: "90 days" },
  { value: "8760h", label: "A year" },
  { value: "", label: "For ever" },
];

const callerName = /^[A-Za-z0-9][A-Za-z0-9._@:/+-]{0,127}$/;

/** What is wrong with the name of a caller or an account; nothing for none yet. */
export function nameFault(name: string): string | undefined {
  if (name === "" || callerName.test(name)) return undefined;
  return "Letters, digits and . _ @ : / + -, at most 128, and a letter or a digit first.";
}
