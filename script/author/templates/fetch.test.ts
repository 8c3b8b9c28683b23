import { beforeEach, expect, fn, stubEnv, stubGlobal, test } from "toolyard/test";
import lookUp from "./NAME";

const fetch = fn();

beforeEach(() => {
  // Tests have no network and no environment.
  stubGlobal("fetch", fetch);
  stubEnv("API_TOKEN", "secret");
});

test("returns the page", async () => {
  fetch.mockResolvedValue(Response.json({ title: "Intro", text: "Hello." }));
  expect(await lookUp({ id: "intro" })).toEqual({ title: "Intro", text: "Hello." });
  expect(fetch).toHaveBeenCalledWith(
    "https://api.example.com/pages/intro",
    expect.objectContaining({ headers: { authorization: "Bearer secret" } }),
  );
});

test("explains that a page does not exist", async () => {
  fetch.mockResolvedValue(new Response("", { status: 404 }));
  expect(await lookUp({ id: "none" })).toEqual({ isError: true, error: "Page none does not exist." });
});

test("fails if the service does", async () => {
  fetch.mockResolvedValue(new Response("", { status: 503 }));
  await expect(lookUp({ id: "intro" })).rejects.toThrow("status 503");
});
