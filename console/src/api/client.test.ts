import { describe, expect, it } from "vitest";
import { toApiError } from "./client";

describe("toApiError", () => {
  it("converts a problem response of the yard", async () => {
    const body = { status: 400, error: "VALIDATION_ERROR", message: "It does not fit.", retryAfterMs: 10, issues: [{ path: "a", message: "is missing" }] };
    expect(await toApiError(new Response(JSON.stringify(body), { status: 400 }))).toMatchObject(
      { code: "VALIDATION_ERROR", status: 400, message: "It does not fit.", retryAfterMs: 10, issues: [{ path: "a", message: "is missing" }] });
  });

  it.each(["<h1>Bad gateway</h1>", "", "null", "[]", '"text"'])("tolerates %j from a proxy", async (body) => {
    expect(await toApiError(new Response(body, { status: 502, statusText: "Bad Gateway" }))).toMatchObject({ code: "HTTP_502", message: "Unexpected response: 502 Bad Gateway.", issues: [] });
  });
});
