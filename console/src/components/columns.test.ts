import { expect, test } from "vitest";
import { layoutOf, type Sized } from "./columns";

const columns: Sized[] = [
  { id: "name", min: 160, grow: 2 },
  { id: "state", min: 100, grow: 1 },
  { id: "size", min: 90, drop: 2 },
  { id: "when", min: 80, drop: 1 },
];

const shown = (room: number) => layoutOf(columns, room).columns.map(({ id }) => id);

test("columns are dropped by priority and return when there is space", () => {
  expect(shown(1000)).toEqual(["name", "state", "size", "when"]);
  expect(shown(429)).toEqual(["name", "state", "when"]);
  expect(shown(300)).toEqual(["name", "state"]);
});

test("no column is narrower than its minimum width", () => {
  for (let room = 0; room < 1600; room += 7) {
    const { columns: list, widths, total } = layoutOf(columns, room);
    expect(widths.every((width, i) => width >= (list[i]?.min ?? 0))).toBe(true);
    expect(Math.round(widths.reduce((sum, width) => sum + width, 0))).toBe(Math.round(total));
  }
});

test("a table that cannot drop columns scrolls", () => {
  expect(layoutOf(columns, 200).total).toBe(260);
});

test("spare width goes to growing columns", () => {
  expect(layoutOf(columns, 730).widths).toEqual([360, 200, 90, 80]);
});
