import { afterEach, beforeEach, expect, test, vi } from "vitest";

let shown: string | undefined;
let sent: unknown[] = [];
let answer: () => Response;

async function open(url: string) {
  vi.resetModules();
  const { pathname, hash } = new URL(url, "https://tools.example.com");
  vi.stubGlobal("location", { pathname, hash });
  const module = await import("./authorization");
  module.takeAuthorizationResponse();
  return module;
}

beforeEach(() => {
  [shown, sent] = [undefined, []];
  answer = () => Response.json({ server: "crm" });
  vi.stubGlobal("localStorage", { getItem: () => "p1", setItem: () => undefined, removeItem: () => undefined });
  vi.stubGlobal("history", { replaceState: (_: unknown, __: string, url: string) => (shown = url) });
  vi.stubGlobal("fetch", async (url: string, init: RequestInit) => {
    sent.push({ url, body: JSON.parse(String(init.body)) });
    return answer();
  });
});
afterEach(() => vi.unstubAllGlobals());

test("a response is removed from the URL and sent once", async () => {
  const { hasAuthorizationResponse, completeAuthorization } = await open("/console/connections#code=c1&state=t1&key=tyl_attacker");
  expect([hasAuthorizationResponse(), shown]).toEqual([true, "/console/connections"]);
  expect(await completeAuthorization()).toEqual({ server: "crm" });
  expect(await completeAuthorization()).toEqual({ server: "crm" });
  expect(sent).toEqual([{ url: "/api/v1/oauth/response", body: { response: "code=c1&state=t1&key=tyl_attacker" } }]);
});

test("after the sign-in has expired, the response is sent again", async () => {
  const { completeAuthorization } = await open("/console/connections#code=c1&state=t1");
  answer = () => Response.json({ message: "Sign in again." }, { status: 401 });
  await expect(completeAuthorization()).rejects.toThrow("Sign in again.");
  answer = () => Response.json({ server: "crm" });
  expect(await completeAuthorization()).toEqual({ server: "crm" });
});

test.each(["/console/connections", "/console/connections#key=tyl_x", "/console/connections/crm#ticket=t&state=x", "/console/#state=x"])("%s is no response", async (url) => {
  const { hasAuthorizationResponse } = await open(url);
  expect([hasAuthorizationResponse(), shown]).toEqual([false, undefined]);
});
