import { afterEach, expect, test, vi } from "vitest";
import type { Answers } from "../../api/types";
import { type OpenQuestion, runRound } from "./rounds";

const request = { tool: "book", gate: "all", args: { day: "Monday" }, session: "s1" };
const inputRequired = { questions: { seats: { message: "How many?", schema: { type: "object" } } }, state: "sealed" };
const open: OpenQuestion = { request, inputRequired, round: 1 };
const yes: Answers = { seats: { action: "accept", content: { n: 2 } } };
const signal = () => new AbortController().signal;

/** Lets the yard answer, and tells what it was sent. */
function yard(body: object, status = 200) {
  const fetched = vi.fn(async (_to: string, _init: { body: string }) => new Response(JSON.stringify(body), { status }));
  vi.stubGlobal("fetch", fetched);
  return () => JSON.parse(fetched.mock.calls[0]?.[1].body ?? "null") as unknown;
}

afterEach(() => vi.unstubAllGlobals());

test("a call that ends", async () => {
  const sent = yard({ result: { content: [] } });
  expect(await runRound(request, signal())).toMatchObject({ answer: { result: { content: [] } } });
  expect(sent()).toEqual({ ...request, interactive: true });
});

test("a call that asks keeps the call it belongs to", async () => {
  yard({ inputRequired });
  expect((await runRound(request, signal())).question).toEqual(open);
});

test("the answer goes with the same call and its state, and the tool may ask again", async () => {
  const sent = yard({ inputRequired: { questions: {}, state: "next" } });
  expect((await runRound(request, signal(), open, yes)).question).toEqual({ request, inputRequired: { questions: {}, state: "next" }, round: 2 });
  expect(sent()).toEqual({ ...request, state: "sealed", answers: yes });
});

test("what asks nothing gets its state alone", async () => {
  const sent = yard({ result: {} });
  await runRound(request, signal(), { ...open, inputRequired: { questions: {}, state: "alone" } });
  expect(sent()).toEqual({ ...request, state: "alone" });
});

test("who turned away is not asked again", async () => {
  yard({ inputRequired });
  expect(await runRound(request, signal(), open, { seats: { action: "cancel" } })).toMatchObject({ error: { code: "CANCELED" }, lost: true });
});

test.each([
  ["a state that is not taken", 400, [{ path: "state", message: "is not good" }], "EXPIRED"],
  ["answers that are not taken", 400, [{ path: "answers.seats.content", message: "is no object" }], "VALIDATION_ERROR"],
])("%s: the question is gone", async (_, status, issues, code) => {
  yard({ error: "VALIDATION_ERROR", message: "No.", issues }, status);
  expect(await runRound(request, signal(), open, yes)).toMatchObject({ error: { code }, lost: true });
});

test.each([402, 429, 503])("an answer that is put off with %i can be sent again", async (status) => {
  yard({ error: "RATE_LIMITED", message: "Later." }, status);
  expect((await runRound(request, signal(), open, yes)).question).toEqual({ ...open, refused: "Later." });
  expect(await runRound(request, signal())).toMatchObject({ error: { message: "Later." } });
});

test("an argument called state is none of a question", async () => {
  yard({ error: "VALIDATION_ERROR", message: "No.", issues: [{ path: "state", message: "is required" }] }, 400);
  const made = await runRound(request, signal());
  expect(made).toMatchObject({ error: { code: "VALIDATION_ERROR" } });
  expect(made.lost).toBeUndefined();
});

test("neither a result nor a question", async () => {
  yard({});
  expect(await runRound(request, signal())).toMatchObject({ error: { code: "BAD_ANSWER" } });
});

test("who stops waiting is told so", async () => {
  vi.stubGlobal("fetch", () => Promise.reject(new Error("aborted")));
  expect(await runRound(request, AbortSignal.abort(), open, yes)).toMatchObject({ error: { code: "CANCELED" }, lost: true });
});
