import { describe, expect, it } from "vitest";
import { addMoney, bytes, compareMoney, count, duration, money, moneyShare, moneyText, parseMoney, percent, plural, price, relative, roundedMoney, shortCount } from ".";
import { visible } from "./visible";

describe("money", () => {
  it.each([
    ["0", "$0.00"],
    ["0.0025", "$0.0025"],
    ["12.5", "$12.50"],
    ["1234567.891", "$1,234,567.891"],
    ["-5", "−$5.00"],
    ["0.000000001", "$0.000000001"],
    ["9223372036.854775807", "$9,223,372,036.854775807"],
    ["nonsense", "nonsense"],
  ])("formats %s as %s", (text, want) => expect(money(text)).toBe(want));

  it.each([["2.328", "$2.33"], ["2.325", "$2.33"], ["1234.5", "$1,234.50"], ["0.0025", "$0.0025"], ["-3", "−$3.00"], ["x", "x"]])("rounds %s to %s", (text, want) => expect(roundedMoney(text)).toBe(want));

  it("adds exactly", () => {
    expect(addMoney("0.1", "0.2")).toBe("0.3");
    expect(addMoney("9223372036.854775807", "0.000000001", undefined)).toBe("9223372036.854775808");
    expect(addMoney("1", "-1.5")).toBe("-0.5");
  });

  it.each(["", "1.", ".5", "1e3", "1.0000000001", "--1", "0x1"])("rejects %j", (text) => expect(parseMoney(text)).toBeUndefined());

  it("parses its own output", () => {
    for (const amount of [0n, 1n, -1n, 10n ** 9n, -(10n ** 9n) - 1n, 123_456_789_012_345n]) expect(parseMoney(moneyText(amount))).toBe(amount);
  });

  it("compares and computes shares", () => {
    expect(["10", "9.5", "-1"].sort(compareMoney)).toEqual(["-1", "9.5", "10"]);
    expect(moneyShare("2.5", "10")).toBe(0.25);
    expect(moneyShare("20", "10")).toBe(1);
    expect(moneyShare("1", "0")).toBe(0);
    expect([price(undefined), price("0"), price("0.1")]).toEqual(["free", "free", "$0.10"]);
  });
});

describe("numbers", () => {
  it.each([
    [0, "0 ns"],
    [850, "850 ns"],
    [1000, "1 µs"],
    [12_340, "12.3 µs"],
    [999_499, "999 µs"],
    [999_600, "1 ms"],
    [3_400_000, "3.4 ms"],
    [100_000_000, "100 ms"],
    [999_999_999, "1 s"],
    [1_250_000_000, "1.25 s"],
    [59_990_000_000, "1 m"],
    [125_000_000_000, "2 m 5 s"],
    [10_920_000_000_000, "3 h 2 m"],
    [259_200_000_000_000, "3 d"],
  ])("formats %d ns as %s", (ns, want) => expect(duration(ns)).toBe(want));

  it.each([[0, "0 B"], [1023, "1023 B"], [1024, "1.0 KiB"], [90_000, "88 KiB"], [5 << 20, "5.0 MiB"]])("formats %d bytes as %s", (n, want) => expect(bytes(n)).toBe(want));

  it("counts", () => {
    expect([count(12_345), shortCount(9999), shortCount(12_345), plural(1, "tool"), plural(1200, "tool")]).toEqual(["12,345", "9,999", "12.3K", "1 tool", "1,200 tools"]);
    expect([percent(0, 0), percent(0, 5), percent(1, 10_000), percent(1, 250), percent(3, 4)]).toEqual(["0%", "0%", "<0.1%", "0.4%", "75%"]);
  });
});

describe("time", () => {
  const now = Date.parse("2026-03-10T12:00:00Z");
  it.each([
    ["2026-03-10T11:59:58Z", "now"],
    ["2026-03-10T12:00:08Z", "now"],
    ["2026-03-10T11:59:20Z", "40 s ago"],
    ["2026-03-10T11:55:00Z", "5 min ago"],
    ["2026-03-10T15:00:00Z", "in 3 h"],
    ["2026-03-01T12:00:00Z", "9 d ago"],
    ["2026-01-04T12:00:00Z", "4 Jan"],
    ["2024-01-04T12:00:00Z", "4 Jan 2024"],
    ["nonsense", "nonsense"],
  ])("formats %s as %s", (at, want) => expect(relative(at, now)).toBe(want));
});

describe("visible", () => {
  it("escapes invisible characters only", () => {
    expect(visible("a\u200bb\u202ec\u{e0041}d")).toBe("a⟨U+200B⟩b⟨U+202E⟩c⟨U+E0041⟩d");
    expect(visible("Grüße,\n\tこんにちは 👍 — ok")).toBe("Grüße,\n\tこんにちは 👍 — ok");
  });
});
