import { expect, it } from "vitest";
import type { QueryDetail } from "../../api/types";
import { lengthOf, partsOf, waterfallOf } from "./waterfall";

const turn = (startNs: number, elapsedNs: number) => ({ startNs, elapsedNs }) as QueryDetail["turns"][number];
const evidence = (id: string) => ({ id }) as NonNullable<QueryDetail["answer"]>["evidence"][number];

it("orders turns and calls by start, with a turn before its calls", () => {
  const rows = waterfallOf({
    turns: [turn(0, 10), turn(30, 5)],
    spans: [{ evidence: "e2", startNs: 12, elapsedNs: 3 }, { evidence: "e1", startNs: 10, elapsedNs: 20 }, { evidence: "e3", startNs: 30, elapsedNs: 1 }, { evidence: "unknown", startNs: 1, elapsedNs: 1 }],
    answer: { evidence: [evidence("e1"), evidence("e2"), evidence("e3")] } as QueryDetail["answer"],
  });
  expect(rows.map((row) => (row.kind === "turn" ? row.number : row.evidence.id))).toEqual([1, "e1", "e2", 2, "e3"]);
  expect(lengthOf({ durationMs: 0 }, rows)).toBe(35);
  expect(lengthOf({ durationMs: 1 }, rows)).toBe(1e6);
});

it("has no calls before the first is recorded", () => {
  expect(waterfallOf({ turns: [], spans: [], answer: undefined })).toEqual([]);
});

it.each([
  ["20 % [e1].", [{ text: "20 % " }, { evidence: "e1" }, { text: "." }]],
  ["[e1, e2]", [{ evidence: "e1" }, { evidence: "e2" }]],
  ["no [e9], no [x]", [{ text: "no [e9], no [x]" }]],
  ["", []],
])("splits %j at marks of evidence", (text, want) => expect(partsOf(text, new Set(["e1", "e2"]))).toEqual(want));
