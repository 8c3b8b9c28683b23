import type { Tone } from "../components/Badge";

const words: Record<string, string> = {
  "server.approve": "Approve definitions",
  "server.reject": "Reject definitions",
  "server.retry": "Connect a server again",
  "toolset.put": "Edit a toolset",
  "toolset.remove": "Take back the edits of a toolset",
  "gate.put": "Edit a gate",
  "gate.remove": "Take back the edits of a gate",
  "edits.restore": "Restore an earlier version",
  "account.fund": "Fund an account",
  "key.make": "Make a key",
  "key.revoke": "Revoke a key",
  "session.open": "Open a session",
  "session.close": "Close a session",
  "link.set": "Link an address",
  "link.remove": "Remove a link",
};

/** What can be done, as the API names it. */
export const deeds = Object.keys(words);

/** A deed as people say it, whether it went well or not; the API's own word for one that is new. */
export function deedWords(deed: string): string {
  return words[deed] ?? deed;
}

/** How a change ended, by the status of its answer; zero is one that still runs. */
export function outcome(status: number): { tone: Tone; word: string } {
  if (status === 0) return { tone: "info", word: "Running" };
  if (status < 400) return { tone: "good", word: "Done" };
  if (status === 409) return { tone: "warn", word: "Conflict" };
  return status < 500 ? { tone: "bad", word: "Refused" } : { tone: "bad", word: "Failed" };
}
