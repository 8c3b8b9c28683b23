import { describe, expect, it } from "vitest";
import type { Overview } from "./api/types";
import { health } from "./health";

const well: Overview = {
  yard: "y", version: "1", generation: 1, since: "", store: { kind: "postgres", up: true }, tools: 1, gates: 1, servers: { up: 1, down: 0, starting: 0 },
  problems: 0, approvals: 0, waiting: 0, pending: [], today: { calls: 0, errors: 0, usd: "0" }, top: [], replica: "a",
};

describe("health", () => {
  it.each([
    [{}, "good", "Healthy"],
    [{ store: { kind: "postgres", up: false }, problems: 3 }, "bad", "Store down"],
    [{ store: { kind: "none", up: false } }, "good", "Healthy"],
    [{ servers: { up: 1, down: 2, starting: 1 } }, "bad", "2 servers down"],
    [{ problems: 1, servers: { up: 1, down: 0, starting: 1 } }, "warn", "1 problem"],
    [{ problems: 3, waiting: 2 }, "warn", "1 problem"],
    [{ problems: 2, waiting: 2 }, "warn", "2 pending"],
    [{ servers: { up: 1, down: 0, starting: 1 } }, "info", "Starting"],
  ] as const)("reports the worst state of %j", (change, tone, word) => expect(health({ ...well, ...change })).toEqual([tone, word]));
});
