import { describe, expect, it } from "vitest";
import type { PendingTool } from "../../api/types";
import { changedMembers, consequences, hidesText, preview, parts } from "./review";

const pending = (kind: PendingTool["kind"], more: Partial<PendingTool> = {}): PendingTool => ({ tool: "t", hash: "h", kind, ...more });

describe("definitions", () => {
  it("are split into description and rest", () => {
    expect(parts({ name: "a", description: "Says a." })).toEqual({ text: "Says a.", rest: { name: "a" } });
    expect(parts({ description: 3 })).toEqual({ text: "", rest: { description: 3 } });
    expect(parts(undefined)).toEqual({ text: "", rest: undefined });
  });

  it("with invisible characters are detected at any depth", () => {
    expect(hidesText({ description: "plain", inputSchema: { enum: ["a", 1, null] } })).toBe(false);
    expect(hidesText({ inputSchema: { properties: { "a\u200b": {} } } })).toBe(true);
    expect(hidesText({ inputSchema: { enum: ["\u{e0041}"] } })).toBe(true);
  });

  it("are summarized by their changed members", () => {
    const paths = (...list: string[]) => pending("changed", { changes: list.map((path) => ({ path })) });
    expect(changedMembers(paths("/description", "/inputSchema/a", "/inputSchema/b"))).toBe("description, inputSchema");
    expect(changedMembers(paths("a", "b.c", "d", "e"))).toBe("a, b and 2 more");
    expect(changedMembers(paths(""))).toBe("everything");
  });

  it("are previewed in one line with escapes", () => {
    expect(preview({ a: 1 })).toBe('{"a":1}');
    expect(preview("a\u202eb")).toBe("a⟨U+202E⟩b");
    expect(preview("x".repeat(500))).toHaveLength(161);
  });

  it("have one consequence per kind", () => {
    expect(consequences([pending("new"), pending("new"), pending("gone")], "approve")).toHaveLength(2);
    expect(consequences([pending("refused")], "reject")).toHaveLength(1);
  });
});
