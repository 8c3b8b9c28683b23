import { expect, test } from "vitest";
import { inline, isMarkdown, markdown } from "./markdown";

test("blocks", () => {
  expect(markdown("# Title\n\nSome **bold** text\nover two lines.\n\n- one\n- two\n\n1. first\n\n> said\n\n```js\nlet a;\n```\n---\n| a | b |\n|---|---|\n| 1 | 2 |").map(({ kind }) => kind)).toEqual(["heading", "text", "list", "list", "quote", "code", "rule", "table"]);
});

test("HTML stays text", () => {
  expect(markdown("<img src=x onerror=alert(1)>")).toEqual([{ kind: "text", inline: [{ kind: "text", text: "<img src=x onerror=alert(1)>" }] }]);
});

test("only web URLs are links, with their host", () => {
  expect(inline("[docs](https://example.com/a)")).toEqual([{ kind: "link", text: "docs", url: "https://example.com/a", host: "example.com" }]);
  for (const bad of ["[x](javascript:alert(1))", "[x](data:text/html,1)", "[x](https://user:pw@example.com)", "[x](/console/keys)"]) expect(inline(bad).some(({ kind }) => kind === "link")).toBe(false);
});

test("images are described, not loaded", () => {
  expect(inline("![chart](https://tracker.example/p.png)")).toEqual([{ kind: "image", text: "chart", host: "tracker.example" }]);
});

test("plain text and JSON are not Markdown", () => {
  for (const text of ["Hello, Ann!", '{"a": [1, 2]}', "a - b - c", "2 * 3 * 4"]) expect(isMarkdown(text)).toBe(false);
  for (const text of ["# Title", "- one\n- two", "see [docs](https://example.com)", "**bold**"]) expect(isMarkdown(text)).toBe(true);
});

test("hostile text finishes quickly", () => {
  const started = performance.now();
  for (const text of ["*".repeat(100_000), "[".repeat(100_000), "`".repeat(99_999), "> ".repeat(50_000), "|-".repeat(50_000), "_a".repeat(50_000), "- a\n".repeat(25_000)]) markdown(text);
  expect(performance.now() - started).toBeLessThan(20_000);
}, 60_000);
