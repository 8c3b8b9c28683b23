import { expect, test } from "vitest";
import type { CallRow } from "../../api/types";
import { nestedOf, stepsOf } from "./steps";

test("each step lasts until the next one, and settling until the end", () => {
  const steps = stepsOf({ code: "OK", elapsedNs: 100, marks: [{ step: "admit", atNs: 0 }, { step: "run", atNs: 10 }, { step: "ran", atNs: 90 }] });
  expect(steps.map(({ step, startNs, endNs, failed }) => [step, startNs, endNs, failed])).toEqual([
    ["admit", 0, 10, false],
    ["run", 10, 90, false],
    ["ran", 90, 100, false],
  ]);
});

test("steps are relative to the first mark, like the elapsed time", () => {
  const steps = stepsOf({ code: "OK", elapsedNs: 100, marks: [{ step: "run", atNs: 10 }, { step: "ran", atNs: 105 }] });
  expect(steps.map(({ startNs, endNs }) => [startNs, endNs])).toEqual([[0, 95], [95, 100]]);
});

test("a call that did not run failed in its last step", () => {
  const steps = stepsOf({ code: "VALIDATION_ERROR", elapsedNs: 100, marks: [{ step: "record", atNs: 0 }, { step: "validate", atNs: 10 }] });
  expect(steps.map((step) => step.failed)).toEqual([false, true]);
});

test("a call that ran and failed has failed in its tool", () => {
  const steps = stepsOf({ code: "TIMEOUT", elapsedNs: 100, marks: [{ step: "run", atNs: 0 }, { step: "ran", atNs: 90 }] });
  expect(steps.map((step) => step.failed)).toEqual([true, false]);
});

test("late, unknown and missing marks are tolerated", () => {
  const steps = stepsOf({ code: "OK", elapsedNs: 5, marks: [{ step: "run", atNs: 0 }, { step: "mystery", atNs: 1000 }] });
  expect(steps.map(({ startNs, endNs }) => [startNs, endNs])).toEqual([[0, 5], [5, 5]]);
  expect(stepsOf({ code: "OK", elapsedNs: 5 })).toEqual([]);
});

test("nested calls are placed with nanosecond precision", () => {
  const child = (at: string, elapsedNs: number) => ({ at, elapsedNs }) as CallRow;
  const nested = nestedOf({ at: "2026-11-15T09:59:59.999999Z", elapsedNs: 3_000_000 }, [child("2026-11-15T10:00:00.001Z", 9e9), child("2026-11-15T10:00:00Z", 500)]);
  expect(nested.map(({ startNs, endNs }) => [startNs, endNs])).toEqual([[1000, 1500], [1_001_000, 3_000_000]]);
});
