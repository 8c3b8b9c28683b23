import { expect, test } from "vitest";
import type { CallRow } from "../../api/types";
import { merge, maxRows, Stream, chartSeconds } from "./stream";

const call = (id: string, at: string, more: Partial<CallRow> = {}): CallRow => ({
  id, at, elapsedNs: 1, gate: "g", mode: "read", caller: "c", tool: "t", generation: 1, code: "OK", priceUsd: "0", argsBytes: 0, resultBytes: 0, ...more,
});
const now = Date.parse("2026-11-15T10:00:00Z");

test("a call that begins is a running row, and then one that ended", () => {
  const stream = new Stream({});
  const { id, at, gate, mode, caller, tool } = call("a", "2026-11-15T10:00:00Z");
  stream.begin({ id, at, gate, mode, caller, tool });
  expect(stream.rows()).toMatchObject([{ id: "a", running: true }]);
  stream.end(call("a", "2026-11-15T10:00:00Z", { code: "TIMEOUT" }), now);
  expect(stream.rows()).toHaveLength(1);
  expect(stream.rows()[0]).toMatchObject({ code: "TIMEOUT" });
  expect(stream.rows()[0]?.running).toBeUndefined();
});

test("a begin that comes late does not make an ended call run again", () => {
  const stream = new Stream({});
  stream.end(call("a", "2026-11-15T10:00:00Z"), now);
  stream.begin(call("a", "2026-11-15T10:00:00Z"));
  expect(stream.rows()[0]?.running).toBeUndefined();
});

test("what the yard cannot filter is filtered here", () => {
  const stream = new Stream({ code: "TIMEOUT" });
  stream.begin(call("a", "2026-11-15T10:00:00Z"));
  stream.end(call("b", "2026-11-15T10:00:00Z"), now);
  stream.end(call("c", "2026-11-15T10:00:00Z", { code: "TIMEOUT" }), now);
  expect(stream.rows().map((row) => row.id)).toEqual(["c"]);
});

test("after a break or a loss nothing is said to run", () => {
  for (const event of [(s: Stream) => s.connected(), (s: Stream) => s.addLost(3)]) {
    const stream = new Stream({});
    stream.begin(call("a", "2026-11-15T10:00:00Z"));
    event(stream);
    expect(stream.rows()).toEqual([]);
  }
});

test("rows are bounded; the oldest go", () => {
  const stream = new Stream({});
  for (let i = 0; i < maxRows + 10; i++) stream.end(call(`c${i}`, "2026-11-15T10:00:00Z"), now);
  expect(stream.rows()).toHaveLength(maxRows);
  expect(stream.rows()[0]?.id).toBe("c10");
});

test("seconds count what ended once the calls from before have come, each call once", () => {
  const stream = new Stream({});
  stream.end(call("before", "2026-11-15T09:00:00Z"), now);
  stream.caughtUp();
  stream.end(call("before", "2026-11-15T09:00:00Z"), now);
  stream.end(call("a", "2026-11-15T10:00:00Z"), now);
  stream.end(call("b", "2026-11-15T10:00:00Z", { code: "TIMEOUT" }), now + 999);
  const seconds = stream.perSecond(now + 1000);
  expect(seconds).toHaveLength(chartSeconds);
  expect(seconds.at(-1)).toMatchObject({ ok: 1, errors: 1 });
  expect(stream.perSecond(now + 200_000).every((second) => second.ok === 0)).toBe(true);
});

test("merge orders by microseconds whatever the number of decimals, and prefers the ended", () => {
  const history = [call("b", "2026-11-15T10:00:00.5Z"), call("a", "2026-11-15T10:00:00Z")];
  const live = [{ ...call("a", "2026-11-15T10:00:00Z"), running: true as const }, call("c", "2026-11-15T10:00:00.500001Z")];
  const rows = merge(history, live);
  expect(rows.map((row) => row.id)).toEqual(["c", "b", "a"]);
  expect(rows[2]?.running).toBeUndefined();
});

test("a list that must not move is renewed in its place", () => {
  const stream = new Stream({});
  stream.end(call("before", "2026-11-15T09:00:00Z"), now);
  stream.caughtUp();
  const before = stream.rows();
  stream.begin(call("a", "2026-11-15T10:00:00Z"));
  stream.begin(call("gone", "2026-11-15T10:00:00Z"));
  const shown = stream.rows().filter((row) => !before.includes(row));
  stream.addLost(1);
  stream.end(call("a", "2026-11-15T10:00:00Z"), now);
  stream.end(call("new", "2026-11-15T10:00:01Z"), now);
  expect(stream.refresh(shown)).toMatchObject([{ id: "a", code: "OK" }]);
  expect(stream.newCalls).toBe(4);
});
