import type { Overview } from "./api/types";
import type { Tone } from "./components/Badge";
import { plural } from "./format";

/** Reports whether a configured store is down. */
export function storeDown({ store }: Overview): boolean {
  return store.kind !== "none" && !store.up;
}

/** The number of problems other than pending approvals, which are listed separately. */
export function otherProblems({ problems, waiting }: Overview): number {
  return Math.max(0, problems - waiting);
}

/** The yard's health as a tone and a short text. */
export function health(overview: Overview): [Tone, string] {
  if (storeDown(overview)) return ["bad", "Store down"];
  if (overview.servers.down > 0) return ["bad", `${plural(overview.servers.down, "server")} down`];
  if (otherProblems(overview) > 0) return ["warn", plural(otherProblems(overview), "problem")];
  if (overview.waiting > 0) return ["warn", `${overview.waiting} pending`];
  if (overview.servers.starting > 0) return ["info", "Starting"];
  return ["good", "Healthy"];
}
