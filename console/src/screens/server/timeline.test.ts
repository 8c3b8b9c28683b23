import { describe, expect, it } from "vitest";
import type { ServerEvent } from "../../api/types";
import { timeline, uptime } from "./timeline";

const at = (second: number) => new Date(second * 1000).toISOString();
const event = (second: number, kind: ServerEvent["kind"], text?: string): ServerEvent => ({ at: at(second), kind, ...(text && { text }) });

describe("timeline", () => {
  it("is undefined without events", () => {
    expect(timeline([], 0)).toBeUndefined();
    expect(timeline([{ at: "soon", kind: "up" }], 0)).toBeUndefined();
  });

  it("has spans for states and marks for other events", () => {
    const line = timeline([event(50, "up"), event(42, "start"), event(40, "down", "it died"), event(20, "changed", "one"), event(10, "up"), event(0, "start")], 100_000);
    expect(line?.spans).toEqual([
      { state: "starting", from: 0, to: 10_000 },
      { state: "up", from: 10_000, to: 40_000 },
      { state: "down", from: 40_000, to: 42_000, text: "it died" },
      { state: "starting", from: 42_000, to: 50_000 },
      { state: "up", from: 50_000, to: 100_000 },
    ]);
    expect(line?.marks).toEqual([{ kind: "changed", at: 20_000, text: "one" }]);
    expect(line && uptime(line)).toEqual({ known: 100_000, up: 80_000 });
  });

  it("counts failed attempts as downtime", () => {
    const line = timeline([event(60, "up"), event(58, "start"), event(50, "down", "no program, 9 times"), event(12, "start"), event(10, "down"), event(5, "up"), event(0, "start")], 100_000);
    expect(line?.spans.map(({ state, from, to }) => [state, from / 1000, to / 1000])).toEqual([["starting", 0, 5], ["up", 5, 10], ["down", 10, 58], ["starting", 58, 60], ["up", 60, 100]]);
    expect(timeline([event(50, "down"), event(0, "start")], 100_000)?.spans.map((each) => each.state)).toEqual(["down"]);
  });

  it("has an unknown state before the first event", () => {
    const line = timeline([event(30, "up"), event(10, "approved")], 50_000);
    expect(line?.spans.map((each) => each.state)).toEqual(["unknown", "up"]);
    expect(line && uptime(line)).toEqual({ known: 20_000, up: 20_000 });
  });

  it("has a minimum length", () => {
    const line = timeline([event(10, "up")], 10_000);
    expect(line && line.to - line.from).toBe(1000);
  });

  it("tolerates clock skew", () => {
    const line = timeline([event(20, "down"), event(10, "up")], 5_000);
    expect(line?.to).toBe(20_000);
    expect(line?.spans.every((each) => each.to > each.from)).toBe(true);
  });
});
