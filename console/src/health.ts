import type { Overview } from "./api/types";
import type { Tone } from "./components/Badge";
import { plural } from "./format";

/** Whether the store is away; a yard may also do without one. */
export function storeDown({ store }: Overview): boolean {
  return store.kind !== "none" && !store.up;
}

/** How the yard is, in a mark and a few words. */
export function health(overview: Overview): [Tone, string] {
  if (storeDown(overview)) return ["bad", "Store down"];
  if (overview.servers.down > 0) return ["bad", `${plural(overview.servers.down, "server")} down`];
  if (overview.problems > 0) return ["warn", plural(overview.problems, "problem")];
  if (overview.servers.starting > 0) return ["info", "Starting"];
  return ["good", "Healthy"];
}
