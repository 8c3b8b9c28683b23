import { describe, expect, it } from "vitest";
import { bodyOf, summarize, namePattern, emptySelection, same, type Selection, selectionOf, serverState, toolState, withPack, withServer, withTool, withTools } from "./selection";

const some: Selection = { tools: ["quote"], servers: [{ id: "jira" }, { id: "github", tools: ["search", "read"], resources: ["repo://a/*"] }], packs: ["trading"] };

describe("a selection", () => {
  it("contains tools by name and whole servers", () => {
    expect(toolState(some, undefined, "quote")).toBe("named");
    expect(toolState(some, undefined, "search")).toBe("no");
    expect(toolState(some, "jira", "anything")).toBe("whole");
    expect(toolState(some, "github", "search")).toBe("named");
    expect(toolState(some, "github", "delete")).toBe("no");
    expect(["jira", "github", "slack"].map((id) => serverState(some, id))).toEqual(["whole", "some", "no"]);
  });

  it("adds and removes single tools", () => {
    expect(withTool(some, undefined, "quote", false).tools).toEqual([]);
    expect(withTool(some, "slack", "post", true).servers.at(-1)).toEqual({ id: "slack", tools: ["post"] });
    expect(withTool(some, "github", "delete", true).servers[1]?.tools).toEqual(["search", "read", "delete"]);
    expect(withTool(some, "github", "search", true)).toEqual(some);
    expect(withTool(some, "slack", "post", false)).toBe(some);
  });

  it("never turns a server without tools into a whole server", () => {
    const one = withTool(some, "github", "search", false);
    expect(one.servers[1]?.tools).toEqual(["read"]);
    expect(serverState(withTool(one, "github", "read", false), "github")).toBe("no");
    expect(serverState(withTools(some, "github", []), "github")).toBe("no");
  });

  it("ignores single tools of a whole server", () => {
    expect(withTool(some, "jira", "x", false)).toBe(some);
  });

  it("adds and removes servers and keeps their resources", () => {
    expect(withServer(some, "github", true).servers[1]).toEqual({ id: "github", resources: ["repo://a/*"] });
    expect(withServer(some, "jira", false).servers.map((pick) => pick.id)).toEqual(["github"]);
    expect(withTools(some, "jira", ["a", "b"]).servers[0]).toEqual({ id: "jira", tools: ["a", "b"] });
    expect(withServer(emptySelection, "slack", true).servers).toEqual([{ id: "slack" }]);
  });

  it("merges duplicate entries of a server on change", () => {
    const twice: Selection = { tools: [], servers: [{ id: "a", tools: ["x"] }, { id: "a", tools: ["y"] }], packs: [] };
    expect(toolState(twice, "a", "y")).toBe("named");
    expect(withServer(twice, "a", true).servers).toEqual([{ id: "a" }]);
    expect(withTool(twice, "a", "y", false).servers).toEqual([{ id: "a", tools: ["x"] }]);
  });

  it("is equal in any order", () => {
    expect(same(some, { tools: ["quote"], servers: [{ id: "github", tools: ["read", "search"], resources: ["repo://a/*"] }, { id: "jira", tools: [] }], packs: ["trading"] })).toBe(true);
    expect(same(some, withPack(some, "trading", false))).toBe(false);
    expect(withPack(some, "trading", true).packs).toEqual(["trading"]);
    expect(bodyOf(some).packs).toEqual(["trading"]);
    expect(same(some, withTool(some, "github", "read", false))).toBe(false);
    expect(same(selectionOf({}), emptySelection)).toBe(true);
  });

  it("omits empty members and has a summary", () => {
    expect(bodyOf(emptySelection)).toEqual({});
    expect(summarize(some, 4)).toBe("1 local tool, all of jira, 2 of github, pack trading");
    expect(summarize(some, 1)).toBe("1 local tool and 3 more");
    expect(summarize(emptySelection)).toBe("no tools");
  });

  it("validates names", () => {
    expect(["a", "support-2", "a".repeat(32)].every((name) => namePattern.test(name))).toBe(true);
    expect(["", "-a", "a-", "A", "a b", "a".repeat(33)].some((name) => namePattern.test(name))).toBe(false);
  });
});
