import { expect, test } from "vitest";
import { nameFault, scopesOf, scopeWords } from "./scopes";

test("scopes are spelled out", () => {
  expect(scopesOf({ everyGate: true, gates: ["a"], write: false, reach: "none" })).toEqual(["gate:*"]);
  expect(scopesOf({ everyGate: false, gates: ["a", "b"], write: true, reach: "viewer" })).toEqual(["gate:a", "gate:b", "write", "viewer"]);
});

test.each([
  [[], ["Enters every gate, also those that write.", "Does not see this console."]],
  [["viewer"], ["Enters every gate that only reads.", "Sees this console, and changes nothing."]],
  [["gate:*", "write", "operator"], ["Enters every gate, also to write.", "Sees this console, and changes what it can change."]],
  [["gate:a"], ["Enters the gate a that only reads.", "Does not see this console."]],
])("the words for %j", (scopes, words) => {
  expect(scopeWords(scopes)).toEqual(words);
});

test("names of callers", () => {
  expect(nameFault("")).toBeUndefined();
  expect(nameFault("ada@example.com")).toBeUndefined();
  expect(nameFault("@ada")).toBeDefined();
  expect(nameFault("two words")).toBeDefined();
});
