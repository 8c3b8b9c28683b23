import { expect, test } from "vitest";
import { nameError, scopesOf, describeScopes } from "./scopes";

test("scopes are explicit", () => {
  expect(scopesOf({ everyGate: true, gates: ["a"], write: false, access: "none" })).toEqual(["gate:*"]);
  expect(scopesOf({ everyGate: false, gates: ["a", "b"], write: true, access: "viewer" })).toEqual(["gate:a", "gate:b", "write", "viewer"]);
});

test.each([
  [[], ["Calls read-only tools at every gate.", "Console: sees its own calls, spend and links."]],
  [["viewer"], ["Calls read-only tools at every gate.", "Console: views everything."]],
  [["gate:*", "write", "operator"], ["Calls tools at every gate, including writes.", "Console: views and changes everything."]],
  [["all"], ["Calls tools at every gate, including writes.", "Console: views and changes everything."]],
  [["gate:a"], ["Calls read-only tools at the gate a.", "Console: sees its own calls, spend and links."]],
])("the description of %j", (scopes, words) => {
  expect(describeScopes(scopes)).toEqual(words);
});

test("caller names are validated", () => {
  expect(nameError("")).toBeUndefined();
  expect(nameError("ada@example.com")).toBeUndefined();
  expect(nameError("@ada")).toBeDefined();
  expect(nameError("two words")).toBeDefined();
});
