import { describe, expect, it } from "vitest";
import { compare, type DiffRow, fold, type Line, stableJson } from "./lines";

const texts = (line: Line | undefined) => line && `${line.number}:${line.parts.map((part) => (part.changed ? `[${part.text}]` : part.text)).join("")}`;
const rows = (all: DiffRow[]) => all.map((row) => [row.kind, texts(row.left), texts(row.right)]);

describe("compare", () => {
  it("pairs changed lines and highlights words", () => {
    expect(rows(compare("a\nnewest first\nz", "a\nbest match first\nz"))).toEqual([
      ["same", "1:a", "1:a"],
      ["changed", "2:[newest] first", "2:[best] [match ]first"],
      ["same", "3:z", "3:z"],
    ]);
  });

  it("keeps lines of one side only", () => {
    expect(rows(compare("a\nb\nc\n", "a\nc\nd\n"))).toEqual([
      ["same", "1:a", "1:a"],
      ["removed", "2:b", undefined],
      ["same", "3:c", "2:c"],
      ["added", undefined, "3:d"],
    ]);
  });

  it("compares with an empty text", () => {
    expect(rows(compare("", "x"))).toEqual([["added", undefined, "1:x"]]);
    expect(rows(compare("x", ""))).toEqual([["removed", "1:x", undefined]]);
    expect(rows(compare("", ""))).toEqual([]);
  });

  it("preserves random texts", () => {
    let seed = 5;
    const next = (n: number) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
    for (let round = 0; round < 200; round++) {
      const make = () => Array.from({ length: next(12) }, () => ["a", "b", "a b", "", "c d e"][next(5)]).join("\n");
      const [before, after] = [make(), make()];
      const all = compare(before, after);
      const side = (pick: (row: DiffRow) => Line | undefined) =>
        all.map(pick).filter((line) => line !== undefined).map((line) => line.parts.map((part) => part.text).join("")).join("\n");
      expect(side((row) => row.left).trimEnd()).toBe(before.trimEnd());
      expect(side((row) => row.right).trimEnd()).toBe(after.trimEnd());
    }
  });
});

describe("stableJson", () => {
  it("ignores the order of members", () => {
    expect(stableJson({ b: [{ y: 1, x: null }], a: 2 })).toBe(stableJson({ a: 2, b: [{ x: null, y: 1 }] }));
    expect(stableJson(undefined)).toBe("");
  });

  it("keeps a member named __proto__", () => {
    expect(stableJson(JSON.parse('{"__proto__": {"x": 1}}'))).toContain("__proto__");
  });
});

describe("fold", () => {
  it("folds lines that are far from a change", () => {
    const before = Array.from({ length: 40 }, (_, i) => `line ${i}`);
    const after = before.with(20, "another");
    const shown = fold(compare(before.join("\n"), after.join("\n")));
    expect(shown.map((each) => (each.fold ? each.rows.length : each.row.kind))).toEqual([17, "same", "same", "same", "changed", "same", "same", "same", 16]);
  });
});
