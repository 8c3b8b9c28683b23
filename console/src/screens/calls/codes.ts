// The codes that calls end with, and what they mean to who reads the record.

const meanings: Record<string, string> = {
  OK: "It ended well.",
  VALIDATION_ERROR: "The arguments do not fit the schema of the tool. It did not run.",
  SIZE_LIMIT: "The arguments are larger than the yard takes. It did not run.",
  RESULT_SIZE_LIMIT: "The tool ran, but its result is larger than the yard passes on.",
  METHOD_NOT_FOUND: "The gate shows no tool of this name.",
  TOOL_EXECUTION_ERROR: "The tool itself failed.",
  TOOL_ERROR: "The tool ran and answered that it could not do it.",
  OUTPUT_ERROR: "The tool ran, but its result breaks the schema that it promises.",
  NO_DATA: "There is nothing for the tool to work on, such as an account that is not linked.",
  TIMEOUT: "The tool did not end in time and was stopped.",
  CANCELED: "The caller went away before it ended.",
  UNAVAILABLE: "Something that the tool needs could not be reached: its server, or the store.",
  RATE_LIMITED: "A limit was reached, and there was no room in time. It did not run.",
  BUDGET_EXCEEDED: "The session or the account had not enough left. It did not run.",
  IDEMPOTENCY_CONFLICT: "Its idempotency key belongs to another call. It did not run.",
  IN_PROGRESS: "The call with the same idempotency key was still running.",
  OUTCOME_UNKNOWN: "It may have run; nobody can say how it ended.",
  AUTHENTICATION_ERROR: "Who called was not known.",
  AUTHORIZATION_ERROR: "Who called may not do this.",
  MISSING_CAPABILITY: "The client lacks something that the tool needs, such as asking its user.",
  INTERNAL_ERROR: "A fault of the yard itself. Its log says more.",
};

/** The codes of the platform; tools have others beside them. */
export const codes = Object.keys(meanings);

export function codeWords(code: string): string {
  return code === "OK" ? "OK" : code.toLowerCase().replaceAll("_", " ");
}

export function meaningOf(code: string): string {
  return meanings[code] ?? "A code of the tool's own: its author says what it means.";
}
