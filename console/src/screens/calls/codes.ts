// Result codes and their meanings.

const meanings: Record<string, string> = {
  OK: "Succeeded.",
  VALIDATION_ERROR: "The arguments do not match the schema. The tool did not run.",
  SIZE_LIMIT: "The arguments are too large. The tool did not run.",
  RESULT_SIZE_LIMIT: "The tool ran, but its result is too large.",
  METHOD_NOT_FOUND: "The gate does not offer this tool.",
  NOT_FOUND: "A referenced object, such as a session, does not exist.",
  TOOL_EXECUTION_ERROR: "The tool failed.",
  TOOL_ERROR: "The tool returned an error.",
  OUTPUT_ERROR: "The result does not match the output schema.",
  NO_DATA: "Required data is missing, such as a linked account.",
  TIMEOUT: "The tool exceeded its deadline.",
  CANCELED: "The caller disconnected.",
  UNAVAILABLE: "The server or the store is unavailable.",
  RATE_LIMITED: "A limit was reached. The tool did not run.",
  BUDGET_EXCEEDED: "The session or account budget is exhausted. The tool did not run.",
  IDEMPOTENCY_CONFLICT: "The idempotency key belongs to another call. The tool did not run.",
  VERSION_CONFLICT: "The object changed since it was read.",
  IN_PROGRESS: "A call with the same idempotency key is running.",
  OUTCOME_UNKNOWN: "The tool may have run; the outcome is unknown.",
  AUTHENTICATION_ERROR: "The caller is not authenticated.",
  AUTHORIZATION_ERROR: "The caller is not authorized.",
  MISSING_CAPABILITY: "The client lacks a required capability, such as elicitation.",
  INTERNAL_ERROR: "Internal error. See the log.",
};

/** The platform's codes. Tools may define others. */
export const codes = Object.keys(meanings);

export function codeLabel(code: string): string {
  return code === "OK" ? "OK" : code.toLowerCase().replaceAll("_", " ");
}

export function meaningOf(code: string): string {
  return meanings[code] ?? "A code defined by the tool.";
}
