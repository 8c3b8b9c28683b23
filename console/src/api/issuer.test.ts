import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { leaveToSignIn, pageOf, takeIssuerResponse } from "./issuer";
import { pageSecret } from "./secret";

const items = new Map<string, string>();
let sent: { url: string; body: unknown }[] = [];
let left = "";
let shown = "";
let answer: () => Response;

function visit(url: string) {
  const { origin, pathname, search, hash } = new URL(url, "https://tools.example.com");
  vi.stubGlobal("location", { origin, pathname, search, hash, assign: (to: string) => (left = to) });
}

beforeEach(() => {
  items.clear();
  [sent, left, shown] = [[], "", ""];
  answer = () => Response.json({ caller: "corp:ann", pageSecret: "p1" });
  visit("/console/calls?failed=1");
  vi.stubGlobal("localStorage", {
    getItem: (name: string) => items.get(name) ?? null,
    setItem: (name: string, value: string) => void items.set(name, value),
    removeItem: (name: string) => void items.delete(name),
  });
  vi.stubGlobal("history", { replaceState: (_: unknown, __: string, url: string) => (shown = url) });
  vi.stubGlobal("fetch", async (url: string, init: RequestInit) => {
    sent.push({ url, body: JSON.parse(String(init.body)) });
    return url.endsWith("/response") ? answer() : Response.json({ address: "https://login.example.com/authorize", secret: "s1" });
  });
});
afterEach(() => vi.unstubAllGlobals());

test("a sign-in comes back to the page where it began, once", async () => {
  await leaveToSignIn("corp");
  expect(left).toBe("https://login.example.com/authorize");
  visit("/console/signin/corp?code=c1&state=t1&iss=https%3A%2F%2Flogin.example.com");
  expect(await takeIssuerResponse()).toEqual({ caller: "corp:ann" });
  expect(sent.at(-1)).toEqual({ url: "/api/v1/signin/response", body: { issuer: "corp", secret: "s1", state: "t1", code: "c1", iss: "https://login.example.com" } });
  expect([shown, pageSecret(), items.has("toolyard.signin")]).toEqual(["/console/calls?failed=1", "p1", false]);
});

test("a response without a sign-in has no secret, and a refused one leaves no trace in the URL", async () => {
  visit("/console/signin/corp?code=attacker&state=t1");
  answer = () => Response.json({ message: "Start again." }, { status: 401 });
  await expect(takeIssuerResponse()).rejects.toThrow("Start again.");
  expect(sent.at(-1)?.body).toMatchObject({ secret: "" });
  expect([shown, pageSecret()]).toEqual(["/console/", ""]);
});

test("a sign-in keeps the ticket of a link, and no other fragment", () => {
  expect(pageOf("/console/connections/crm#ticket=t1")).toBe("/console/connections/crm#ticket=t1");
  expect(pageOf("/console/connections/crm#key=tyl_x")).toBe("/console/connections/crm");
  expect(pageOf("/console/calls#ticket=t1")).toBe("/console/calls");
});

test("other pages are no response", async () => {
  expect(await takeIssuerResponse()).toBeUndefined();
  expect(sent).toEqual([]);
});

test.each([
  "//evil.example", "https://evil.example/console/", "https:evil.example", "/\\evil.example", "/console/../..//evil.example", "/console/..//evil.example",
  "javascript:alert(1)", "data:text/html,x", "/consoles", "/", "", "/console/signin/corp?code=x", undefined, 1, "/api/v1/signin",
])("%s is no page to go back to", (path) => expect(pageOf(path)).toBe("/console/"));

test.each(["/console/", "/console/calls?failed=1", "/console/servers/github"])("%s is a page to go back to", (path) => expect(pageOf(path)).toBe(path));
