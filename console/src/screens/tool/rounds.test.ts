import { afterEach, expect, test, vi } from "vitest";
import type { Answers } from "../../api/types";
import { type OpenQuestion, runRound } from "./rounds";

const request = { tool: "book", gate: "all", args: { day: "Monday" }, session: "s1" };
const inputRequired = { questions: { seats: { message: "How many?", schema: { type: "object" } } }, state: "sealed" };
const open: OpenQuestion = { request, inputRequired, round: 1 };
const yes: Answers = { seats: { action: "accept", content: { n: 2 } } };
const signal = () => new AbortController().signal;

/** Stubs the yard's response, and returns the request body. */
function yard(body: object, status = 200) {
  const fetched = vi.fn(async (_to: string, _init: { body: string }) => new Response(JSON.stringify(body), { status }));
  vi.stubGlobal("fetch", fetched);
  return () => JSON.parse(fetched.mock.calls[0]?.[1].body ?? "null") as unknown;
}

afterEach(() => vi.unstubAllGlobals());

test("a call without questions", async () => {
  const sent = yard({ result: { content: [] } });
  expect(await runRound(request, signal())).toMatchObject({ answer: { result: { content: [] } } });
  expect(sent()).toEqual({ ...request, interactive: true });
});

test("a question keeps the request of its call", async () => {
  yard({ inputRequired });
  expect((await runRound(request, signal())).question).toEqual(open);
});

test("an answer repeats the request with its state, and the tool may ask again", async () => {
  const sent = yard({ inputRequired: { questions: {}, state: "next" } });
  expect((await runRound(request, signal(), open, yes)).question).toEqual({ request, inputRequired: { questions: {}, state: "next" }, round: 2 });
  expect(sent()).toEqual({ ...request, state: "sealed", answers: yes });
});

test("a continuation without questions sends only the state", async () => {
  const sent = yard({ result: {} });
  await runRound(request, signal(), { ...open, inputRequired: { questions: {}, state: "alone" } });
  expect(sent()).toEqual({ ...request, state: "alone" });
});

test("a user who canceled is not asked again", async () => {
  yard({ inputRequired });
  expect(await runRound(request, signal(), open, { seats: { action: "cancel" } })).toMatchObject({ error: { code: "CANCELED" }, lost: true });
});

test.each([
  ["a state that is not taken", 400, [{ path: "state", message: "is not good" }], "EXPIRED"],
  ["answers that are not taken", 400, [{ path: "answers.seats.content", message: "is no object" }], "VALIDATION_ERROR"],
])("%s: the question is lost", async (_, status, issues, code) => {
  yard({ error: "VALIDATION_ERROR", message: "No.", issues }, status);
  expect(await runRound(request, signal(), open, yes)).toMatchObject({ error: { code }, lost: true });
});

test.each([402, 429, 503])("an answer rejected with %i can be sent again", async (status) => {
  yard({ error: "RATE_LIMITED", message: "Later." }, status);
  expect((await runRound(request, signal(), open, yes)).question).toEqual({ ...open, refused: "Later." });
  expect(await runRound(request, signal())).toMatchObject({ error: { message: "Later." } });
});

test("an argument named state does not expire a question", async () => {
  yard({ error: "VALIDATION_ERROR", message: "No.", issues: [{ path: "state", message: "is required" }] }, 400);
  const made = await runRound(request, signal());
  expect(made).toMatchObject({ error: { code: "VALIDATION_ERROR" } });
  expect(made.lost).toBeUndefined();
});

test("neither a result nor a question", async () => {
  yard({});
  expect(await runRound(request, signal())).toMatchObject({ error: { code: "BAD_ANSWER" } });
});

test("canceling is reported", async () => {
  vi.stubGlobal("fetch", () => Promise.reject(new Error("aborted")));
  expect(await runRound(request, AbortSignal.abort(), open, yes)).toMatchObject({ error: { code: "CANCELED" }, lost: true });
});
