import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { signIn, signOut } from "./actions";
import { get, stream } from "./client";
import { forgetSecret, storeSecret, pageSecret } from "./secret";

/** A fake yard: the page secrets that it received, and its response. */
const yard = { secrets: [] as (string | null)[], answer: () => Response.json({}) };

beforeEach(() => {
  yard.secrets = [];
  yard.answer = () => Response.json({});
  const items = new Map<string, string>();
  vi.stubGlobal("localStorage", {
    getItem: (name: string) => items.get(name) ?? null,
    setItem: (name: string, value: string) => void items.set(name, value),
    removeItem: (name: string) => void items.delete(name),
  });
  vi.stubGlobal("fetch", async (_: string, init: RequestInit) => {
    yard.secrets.push(new Headers(init.headers).get("Toolyard-Page-Secret"));
    return yard.answer();
  });
});
afterEach(() => vi.unstubAllGlobals());

test("every request sends the page secret, including streams", async () => {
  await get("/me");
  yard.answer = () => Response.json({ caller: "ann", pageSecret: "s1" });
  expect(await signIn("ty_x")).toEqual({ caller: "ann" });
  yard.answer = () => Response.json({});
  await get("/me");
  await stream("/calls/live", {}, new AbortController().signal);
  expect(yard.secrets).toEqual([null, null, "s1", "s1"]);
});

test("signing out deletes the secret before it sends a request", async () => {
  storeSecret("s1");
  yard.answer = () => new Response(null, { status: 204 });
  await signOut();
  expect([pageSecret(), ...yard.secrets]).toEqual(["", null]);
});

test("a rejected secret is deleted, unless another tab has signed in since", async () => {
  storeSecret("s1");
  yard.answer = () => (storeSecret("s2"), new Response("{}", { status: 401 }));
  await expect(get("/me")).rejects.toThrow();
  expect(pageSecret()).toBe("s2");
  yard.answer = () => new Response("{}", { status: 401 });
  await expect(get("/me")).rejects.toThrow();
  expect(pageSecret()).toBe("");
});

test("a failed sign-in does not end the previous one", async () => {
  storeSecret("s1");
  yard.answer = () => new Response("{}", { status: 401 });
  await expect(signIn("ty_wrong")).rejects.toThrow();
  expect(pageSecret()).toBe("s1");
});

test("without storage the secret is kept in memory", () => {
  vi.stubGlobal("localStorage", undefined);
  storeSecret("s1");
  expect(pageSecret()).toBe("s1");
  forgetSecret();
  expect(pageSecret()).toBe("");
});
