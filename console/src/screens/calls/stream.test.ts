import { expect, test } from "vitest";
import type { CallRow } from "../../api/types";
import { merge, maxRows, Stream, chartSeconds } from "./stream";

const call = (id: string, at: string, more: Partial<CallRow> = {}): CallRow => ({
  id, at, elapsedNs: 1, gate: "g", mode: "read", caller: "c", tool: "t", generation: 1, code: "OK", priceUsd: "0", argsBytes: 0, resultBytes: 0, ...more,
});
const now = Date.parse("2026-11-15T10:00:00Z");

test("a started call is a running row until it ends", () => {
  const stream = new Stream({});
  const { id, at, gate, mode, caller, tool } = call("a", "2026-11-15T10:00:00Z");
  stream.begin({ id, at, gate, mode, caller, tool });
  expect(stream.rows()).toMatchObject([{ id: "a", running: true }]);
  stream.end(call("a", "2026-11-15T10:00:00Z", { code: "TIMEOUT" }), now);
  expect(stream.rows()).toHaveLength(1);
  expect(stream.rows()[0]).toMatchObject({ code: "TIMEOUT" });
  expect(stream.rows()[0]?.running).toBeUndefined();
});

test("a late begin event does not restart a finished call", () => {
  const stream = new Stream({});
  stream.end(call("a", "2026-11-15T10:00:00Z"), now);
  stream.begin(call("a", "2026-11-15T10:00:00Z"));
  expect(stream.rows()[0]?.running).toBeUndefined();
});

test("filters that the API does not support are applied locally", () => {
  const stream = new Stream({ code: "TIMEOUT" });
  stream.begin(call("a", "2026-11-15T10:00:00Z"));
  stream.end(call("b", "2026-11-15T10:00:00Z"), now);
  stream.end(call("c", "2026-11-15T10:00:00Z", { code: "TIMEOUT" }), now);
  expect(stream.rows().map((row) => row.id)).toEqual(["c"]);
});

test("running calls are dropped after a reconnect or lost events", () => {
  for (const event of [(s: Stream) => s.connected(), (s: Stream) => s.addLost(3)]) {
    const stream = new Stream({});
    stream.begin(call("a", "2026-11-15T10:00:00Z"));
    event(stream);
    expect(stream.rows()).toEqual([]);
  }
});

test("the number of rows is bounded, and the oldest are dropped", () => {
  const stream = new Stream({});
  for (let i = 0; i < maxRows + 10; i++) stream.end(call(`c${i}`, "2026-11-15T10:00:00Z"), now);
  expect(stream.rows()).toHaveLength(maxRows);
  expect(stream.rows()[0]?.id).toBe("c10");
});

test("finished calls are counted per second after the replay, each once", () => {
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

test("merge sorts by microseconds and prefers finished calls", () => {
  const history = [call("b", "2026-11-15T10:00:00.5Z"), call("a", "2026-11-15T10:00:00Z")];
  const live = [{ ...call("a", "2026-11-15T10:00:00Z"), running: true as const }, call("c", "2026-11-15T10:00:00.500001Z")];
  const rows = merge(history, live);
  expect(rows.map((row) => row.id)).toEqual(["c", "b", "a"]);
  expect(rows[2]?.running).toBeUndefined();
});

test("a paused list is refreshed in place", () => {
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
