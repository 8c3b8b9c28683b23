import { expect, test } from "vitest";
import { nameFault, scopesOf, scopeWords } from "./scopes";

test("scopes are spelled out", () => {
  expect(scopesOf({ everyGate: true, gates: ["a"], write: false, reach: "none" })).toEqual(["gate:*"]);
  expect(scopesOf({ everyGate: false, gates: ["a", "b"], write: true, reach: "viewer" })).toEqual(["gate:a", "gate:b", "write", "viewer"]);
});

test.each([
  [[], ["Calls read-only tools at every gate.", "Console: sees its own calls, spend and links."]],
  [["viewer"], ["Calls read-only tools at every gate.", "Console: views everything."]],
  [["gate:*", "write", "operator"], ["Calls tools at every gate, including writes.", "Console: views and changes everything."]],
  [["all"], ["Calls tools at every gate, including writes.", "Console: views and changes everything."]],
  [["gate:a"], ["Calls read-only tools at the gate a.", "Console: sees its own calls, spend and links."]],
])("the words for %j", (scopes, words) => {
  expect(scopeWords(scopes)).toEqual(words);
});

test("names of callers", () => {
  expect(nameFault("")).toBeUndefined();
  expect(nameFault("ada@example.com")).toBeUndefined();
  expect(nameFault("@ada")).toBeDefined();
  expect(nameFault("two words")).toBeDefined();
});
