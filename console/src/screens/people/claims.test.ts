import { expect, test } from "vitest";
import { claimsFrom } from "./claims";

test("claims are a JSON object", () => {
  expect(claimsFrom(' {"sub": "ann"} ')).toEqual({ claims: { sub: "ann" } });
  for (const text of ["", "x", "[]", "null", '"text"', "{"]) expect(claimsFrom(text).problem, text).toMatch(/JSON object/);
});

test("a token is recognized and not used", () => {
  for (const text of ["eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2ln", "Bearer eyJhbGciOiJSUzI1NiJ9.e30.c2ln", '"eyJhbGciOiJSUzI1NiJ9.e30.c2ln"']) {
    expect(claimsFrom(text).claims).toBeUndefined();
    expect(claimsFrom(text).problem, text).toMatch(/token/);
  }
});
