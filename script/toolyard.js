// The module "toolyard", for tools that choose the code of an error.

const pathOf = (path) => (Array.isArray(path) ? path.map(String) : path === undefined ? [] : String(path).split("."));

/** ToolError is an error with a code that callers receive. */
export class ToolError extends Error {
  constructor(message, { code = "TOOL_EXECUTION_ERROR", issues, retryAfterMs, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.retryAfterMs = retryAfterMs;
    this.issues = issues?.map((i) => ({ path: pathOf(i.path), message: String(i.message) }));
  }
  get name() {
    return "ToolError";
  }
}
