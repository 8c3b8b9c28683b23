import { describe, expect, it } from "vitest";
import { snippets } from "./snippets";

const gate = (callers: "anyone" | "keys") => snippets({ name: "support", path: "/mcp/support", callers }, "https://tools.example.com");

describe("snippets", () => {
  it("contain the URL of the gate", () => {
    for (const { text } of gate("anyone")) expect(text).toContain("https://tools.example.com/mcp/support");
  });

  it("mention a key only if it is required, and never contain one", () => {
    for (const { text } of gate("anyone")) expect(text).not.toContain("Bearer");
    for (const { text } of gate("keys")) expect(text).toMatch(/Bearer (\$TOOLYARD_KEY|\$\{|<)/);
  });

  it("are valid JSON files", () => {
    for (const { text } of [...gate("keys"), ...gate("anyone")].filter((each) => each.file)) expect(() => JSON.parse(text) as unknown).not.toThrow();
  });
});
