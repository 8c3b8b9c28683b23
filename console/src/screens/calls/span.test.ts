import { expect, test } from "vitest";
import { localInput, momentOf } from "./span";

const now = Date.parse("2026-11-15T10:00:00Z");

test.each([
  [undefined, undefined],
  ["", undefined],
  ["15m", "2026-11-15T09:45:00.000Z"],
  ["7d", "2026-11-08T10:00:00.000Z"],
  ["2026-11-01T00:00:00Z", "2026-11-01T00:00:00.000Z"],
  ["nonsense", undefined],
  ["99999h", undefined],
])("moment of %s", (text, want) => {
  expect(momentOf(text, now)).toBe(want);
});

test("a datetime-local value round-trips to the minute", () => {
  const at = "2026-11-15T10:07:00.000Z";
  expect(new Date(localInput(at)).toISOString()).toBe(at);
  expect(localInput("nonsense")).toBe("");
});
