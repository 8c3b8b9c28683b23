import { expect, test } from "vitest";
import { labelledBands, ticksOf } from "./scale";

test("ticks are round, start at zero and cover the largest value", () => {
  expect(ticksOf(2.33)).toEqual([0, 1, 2, 3]);
  expect(ticksOf(0.0125)).toEqual([0, 0.005, 0.01, 0.015]);
  expect(ticksOf(0)).toEqual([0, 0.25, 0.5, 0.75, 1]);
  expect(ticksOf(3, { whole: true })).toEqual([0, 1, 2, 3]);
  expect(ticksOf(1, { whole: true })).toEqual([0, 1]);
  for (let n = 0.001; n < 1e6; n *= 3.7) {
    const ticks = ticksOf(n);
    expect(ticks.length).toBeLessThanOrEqual(5);
    expect(ticks.at(-1)).toBeGreaterThanOrEqual(n);
  }
});

test("labels do not overlap and stay inside the chart", () => {
  for (const [count, width] of [[7, 40], [30, 9], [62, 5], [53, 11], [366, 0.9], [1, 300]] as const) {
    const labelled = labelledBands(count, width, 40);
    expect(labelled.length).toBeGreaterThan(0);
    labelled.slice(1).forEach((band, i) => expect((band - (labelled[i] ?? 0)) * width).toBeGreaterThanOrEqual(40));
    expect((count - (labelled.at(-1) ?? 0) - 0.5) * width).toBeGreaterThanOrEqual(width * count < 40 ? 0 : 20);
  }
});
