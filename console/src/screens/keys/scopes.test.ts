import { expect, test } from "vitest";
import { nameError, scopesOf, describeScopes } from "./scopes";

test("scopes are explicit", () => {
  expect(scopesOf({ everyGate: true, gates: ["a"], write: false, access: "none" })).toEqual(["gate:*"]);
  expect(scopesOf({ everyGate: false, gates: ["a", "b"], write: true, access: "viewer" })).toEqual(["gate:a", "gate:b", "write", "viewer"]);
});

test.each([
  [[], ["Can call read-only tools at every gate.", "Can view its own calls, spend and links in the console."]],
  [["viewer"], ["Can call read-only tools at every gate.", "Can view everything in the console."]],
  [["gate:*", "write", "operator"], ["Can call tools at every gate, including write tools.", "Can view and change everything in the console."]],
  [["all"], ["Can call tools at every gate, including write tools.", "Can view and change everything in the console."]],
  [["gate:a"], ["Can call read-only tools at the gate a.", "Can view its own calls, spend and links in the console."]],
])("the description of %j", (scopes, words) => {
  expect(describeScopes(scopes)).toEqual(words);
});

test("caller names are validated", () => {
  expect(nameError("")).toBeUndefined();
  expect(nameError("ada@example.com")).toBeUndefined();
  expect(nameError("@ada")).toBeDefined();
  expect(nameError("two words")).toBeDefined();
});
