import { expect, test } from "vitest";
import type { Json, JsonObject } from "../../api/types";
import { allOf, answersOf, checked, draftOf, isTooLarge, pageOf, type Question, questionForm, questionsOf } from "./questions";

const asking = (properties: JsonObject, required: string[] = []): Question => ({ key: "q", message: "?", schema: { type: "object", properties, required } });
const field = (schema: Json) => (questionForm({ type: "object", properties: { x: schema } })?.properties as JsonObject).x;
const faultsOf = (properties: JsonObject, content: JsonObject, required: string[] = []) => {
  const question = asking(properties, required);
  return checked(question, { ...draftOf(question), content }).faults.map(({ path, message }) => `${path.join(".")} ${message}`);
};

test("questions are forms or pages with arbitrary keys", () => {
  const inputRequired = JSON.parse('{"state": "s", "questions": {"__proto__": {"message": "a", "schema": {"type": "object"}}, "b": {"message": "c", "url": "https://example.com/"}}}');
  const questions = questionsOf(inputRequired);
  expect(questions).toEqual([{ key: "__proto__", message: "a", schema: { type: "object" } }, { key: "b", message: "c", url: "https://example.com/" }]);
  expect(JSON.stringify(answersOf(questions, questions.map(draftOf)))).toBe('{"__proto__":{"action":"accept","content":{}},"b":{"action":"accept"}}');
  expect(JSON.stringify(allOf(questions, "cancel"))).toBe('{"__proto__":{"action":"cancel"},"b":{"action":"cancel"}}');
});

test("an answer starts with the defaults", () => {
  const { content } = draftOf(asking({ name: { type: "string", default: "Ann" }, none: { type: "string" }, off: { type: "boolean", default: false }, several: { type: "array", items: { enum: ["a"] }, default: ["a"] } }));
  expect(content).toEqual({ name: "Ann", off: false, several: ["a"] });
});

test("a single question can be declined", () => {
  const questions = [{ ...asking({}), key: "a" }, { ...asking({}), key: "b" }];
  const draft = draftOf(asking({}));
  expect(answersOf(questions, [{ ...draft, content: { x: 1 } }, { ...draft, declined: true }])).toEqual({ a: { action: "accept", content: { x: 1 } }, b: { action: "decline" } });
});

test.each<[string, JsonObject, JsonObject, string[], string[]]>([
  ["what is missing", { name: { type: "string" } }, {}, ["name"], ["name is required"]],
  ["what is not set", { name: { type: "string" } }, { name: undefined as unknown as Json }, [], []],
  ["a number out of its bounds", { age: { type: "integer", minimum: 1 } }, { age: 0 }, [], ["age 0 is less than 1"]],
  ["a value that is no choice", { c: { oneOf: [{ const: "a", title: "A" }] } }, { c: "b" }, [], ["c must match exactly one of the options"]],
  ["choices", { c: { type: "array", items: { anyOf: [{ const: "a" }, { const: "b" }] } } }, { c: ["a", "b"] }, [], []],
  ["no e-mail", { to: { type: "string", format: "email" } }, { to: "ann" }, [], ["to must be an email address such as ann@example.com"]],
  ["an e-mail", { to: { type: "string", format: "email" } }, { to: "ann@example.com" }, [], []],
  ["no address", { to: { type: "string", format: "uri" } }, { to: "example" }, [], ["to must be a URL such as https://example.com"]],
  ["a day that is none", { on: { type: "string", format: "date" } }, { on: "2026-02-30" }, [], ["on must be a date such as 2026-01-31"]],
  ["a day", { on: { type: "string", format: "date" } }, { on: "2026-02-28" }, [], []],
  ["a time without a zone", { at: { type: "string", format: "date-time" } }, { at: "2026-01-31T09:30:00" }, [], ["at must be a time such as 2026-01-31T09:30:00Z"]],
  ["a time", { at: { type: "string", format: "date-time" } }, { at: "2026-01-31T09:30:00.5+01:00" }, [], []],
  ["a format that nobody knows", { x: { type: "string", format: "constructor" } }, { x: "a" }, [], []],
])("%s", (_, properties, content, required, want) => {
  expect(faultsOf(properties, content, required)).toEqual(want);
});

test("unreadable answers are invalid, declined answers are valid", () => {
  const question = asking({ a: { type: "string" } }, ["a"]);
  expect(checked(question, { ...draftOf(question), readable: false }).faults).toEqual([{ path: [], message: "is not an object" }]);
  expect(checked(question, { ...draftOf(question), declined: true }).faults).toEqual([]);
});

test.each<[string, Json, JsonObject]>([
  ["a title is the name, and the description stays", { type: "string", title: "Full name", description: "As in the passport." }, { type: "string", description: "As in the passport.", "x-title": "Full name" }],
  ["a truth value is said", { type: "boolean", default: true }, { enum: [true, false], default: true, "x-labels": ["Yes", "No"] }],
  ["choices with older names", { type: "string", enum: ["a", "b"], enumNames: ["A", "B"] }, { type: "string", enum: ["a", "b"], "x-labels": ["A", "B"] }],
  ["too few names", { type: "string", enum: ["a", "b"], enumNames: ["A"] }, { type: "string", enum: ["a", "b"] }],
  ["choices with titles", { type: "string", oneOf: [{ const: "a", title: "A" }] }, { type: "string", enum: ["a"], "x-labels": ["A"] }],
  ["several of some", { type: "array", items: { anyOf: [{ const: "a", title: "A" }, { const: "b", title: "B" }] } }, { type: "array", items: { type: "string", enum: ["a", "b"], "x-labels": ["A", "B"] }, uniqueItems: true }],
])("%s", (_, schema, want) => {
  expect(field(schema)).toEqual(want);
});

test("a schema that is not formable is answered as JSON", () => {
  expect(questionForm({ type: "object", properties: { constructor: { type: "string" } } })).toBeUndefined();
});

test.each([
  ["https://example.com/a?b#c", { address: "https://example.com/a?b#c", host: "example.com" }],
  ["https://ex\u0430mple.com:8443", { address: "https://xn--exmple-4nf.com:8443/", host: "xn--exmple-4nf.com:8443" }],
  ["https://bank.example@evil.example/", undefined],
  ["javascript:alert(1)", undefined],
  ["data:text/html,x", undefined],
  ["/console/keys", undefined],
])("the URL %s", (url, want) => {
  expect(pageOf(url)).toEqual(want);
});

test("oversized answers are detected", () => {
  const of = (length: number) => ({ a: { action: "accept" as const, content: { x: "ä".repeat(length) } } });
  expect(isTooLarge(of(1000))).toBe(false);
  expect(isTooLarge(of(33_000))).toBe(true);
});
