import type { Overview } from "./api/types";
import type { Tone } from "./components/Badge";
import { plural } from "./format";

/** Whether the store is away; a yard may also do without one. */
export function storeDown({ store }: Overview): boolean {
  return store.kind !== "none" && !store.up;
}

/** The problems that are not definitions pending approval, which are listed by themselves. */
export function otherProblems({ problems, waiting }: Overview): number {
  return Math.max(0, problems - waiting);
}

/** The health of the yard, in a mark and a few words. */
export function health(overview: Overview): [Tone, string] {
  if (storeDown(overview)) return ["bad", "Store down"];
  if (overview.servers.down > 0) return ["bad", `${plural(overview.servers.down, "server")} down`];
  if (otherProblems(overview) > 0) return ["warn", plural(otherProblems(overview), "problem")];
  if (overview.waiting > 0) return ["warn", `${overview.waiting} pending`];
  if (overview.servers.starting > 0) return ["info", "Starting"];
  return ["good", "Healthy"];
}
