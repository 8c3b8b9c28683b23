import type { Tone } from "../components/Badge";

const labels: Record<string, string> = {
  "server.approve": "Approve definitions",
  "server.reject": "Reject definitions",
  "server.retry": "Reconnect or refresh a server",
  "toolset.put": "Edit a toolset",
  "toolset.remove": "Revert a toolset",
  "gate.put": "Edit a gate",
  "gate.remove": "Revert a gate",
  "price.put": "Set a price",
  "price.remove": "Reset a price",
  "edits.restore": "Restore an earlier version",
  "pack.action": "Run a pack action",
  "approval.approve": "Approve a call",
  "approval.decline": "Decline a call",
  "grant.delete": "End a remembered approval",
  "account.fund": "Fund an account",
  "key.create": "Create a key",
  "key.revoke": "Revoke a key",
  "person.block": "Block a person",
  "person.unblock": "Unblock a person",
  "caller.delete": "Delete a caller's data",
  "store.backup": "Back up the store",
  "store.restore": "Restore the store",
  "session.open": "Open a session",
  "session.close": "Close a session",
  "connection.start": "Create a connect link",
  "connection.signin": "Start connecting to a server",
  "connection.complete": "Connect to a server",
  "connection.key": "Enter a key for a server",
  "connection.remove": "Disconnect from a server",
  "link.set": "Link an address",
  "link.remove": "Remove a link",
};

/** The API names of all actions. */
export const actions = Object.keys(labels);

/** The label of an action; its API name if the action is unknown. */
export function actionLabel(action: string): string {
  return labels[action] ?? action;
}

/** The outcome of a change from its HTTP status. Status 0 means that it is still running. */
export function outcome(status: number): { tone: Tone; word: string } {
  if (status === 0) return { tone: "info", word: "Running" };
  if (status < 400) return { tone: "good", word: "Done" };
  if (status === 409) return { tone: "warn", word: "Conflict" };
  return status < 500 ? { tone: "bad", word: "Refused" } : { tone: "bad", word: "Failed" };
}
