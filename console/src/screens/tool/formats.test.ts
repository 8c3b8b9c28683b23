import { expect, test } from "vitest";
import { base64Of, canShow, localMoment, utcMoment } from "./formats";

test("an input accepts only values that round-trip", () => {
  expect(canShow("date", "2026-01-31")).toBe(true);
  expect(canShow("date", "tomorrow")).toBe(false);
  expect(canShow("datetime", "2026-01-31T09:30:00+02:00")).toBe(true);
  expect(canShow("datetime", "2026-01-31")).toBe(false);
  expect(canShow("password", "two\nlines")).toBe(false);
  expect(canShow("date", undefined)).toBe(true);
});

test("a time keeps its instant", () => {
  const at = "2026-01-31T09:30:05Z";
  expect(utcMoment(localMoment(at))).toBe(at);
  expect(utcMoment("")).toBe("");
});

test("a file is encoded as base64", async () => {
  expect(await base64Of(new Blob([new Uint8Array(20_000).fill(255)]))).toBe(btoa("\xff".repeat(20_000)));
});
