import { expect, test } from "vitest";
import type { Limit } from "../../api/types";
import { byPressure, isFull, nameOf, pressureOf, untilNext } from "./pressure";

const limit = (name: string, more: Partial<Limit> = {}): Limit => ({ kind: "tool", name, waiting: 0, ...more });

test("a limit is named after its gate, server or tool", () => {
  expect(nameOf(limit("the gate g", { kind: "gate", gate: "g" }))).toBe("g");
  expect(nameOf(limit("the tool t", { server: "s", tool: "t" }))).toBe("s / t");
  expect(nameOf(limit("The server s", { kind: "server", server: "s" }))).toBe("s");
  expect(nameOf(limit("something else"))).toBe("something else");
});

test("pressure is the highest of rate, concurrency and spend", () => {
  expect(pressureOf(limit("a", { perMinute: 60, used: 30, concurrency: 4, running: 3 }))).toBe(0.75);
  expect(pressureOf(limit("a", { cooldownMs: 100 }))).toBe(0);
  expect(isFull(limit("a", { perMinute: 60, used: 60 }))).toBe(true);
  expect(pressureOf(limit("a", { period: "day", maxUsd: "10", spentUsd: "2.5" }))).toBe(0.25);
  expect(pressureOf(limit("a", { period: "day", maxUsd: "10", per: "caller" }))).toBe(0);
  expect(isFull(limit("a", { waiting: 1 }))).toBe(true);
  expect(isFull(limit("a", { perMinute: 60, used: 59 }))).toBe(false);
});

test("limits are sorted by queue, utilization in tenths and name", () => {
  const limits = [limit("b", { perMinute: 100, used: 52 }), limit("a", { perMinute: 100, used: 51 }), limit("c", { perMinute: 100, used: 90 }), limit("d", { waiting: 2 })];
  expect(byPressure(limits).map((each) => each.name)).toEqual(["d", "c", "a", "b"]);
});

test("the next call is relative to the clock of the yard", () => {
  expect(untilNext(limit("a", { nextAt: "2026-11-15T10:00:04Z" }), "2026-11-15T10:00:00Z")).toBe(4e9);
  expect(untilNext(limit("a", { nextAt: "2026-11-15T10:00:00Z" }), "2026-11-15T10:00:04Z")).toBe(0);
});
