/// <reference types="vite/client" />
import { expect, test } from "vitest";

const sheets = import.meta.glob<string>("../**/*.css", { query: "?raw", import: "default", eager: true });
const own = /font(-size)?:[^;]*\d(px|rem|em|pt)/; // matches a font size that is not a token

test("text uses one of five sizes", () => {
  const { "./tokens.css": tokens = "", ...others } = sheets;
  const found = Object.entries(others).flatMap(([file, text]) => text.split("\n").filter((line) => own.test(line.replaceAll(/var\([^)]*\)(\/\d+px)?/g, ""))).map((line) => `${file}: ${line.trim()}`));
  expect(found).toEqual([]);
  expect(tokens.match(/^ *--text-(xs|s|m|l|xl): \d+px;/gm)).toHaveLength(5);
});
