// The module "toolyard", for tools that choose the code of an error, and for tools that were made from code of a model.

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

const isText = (c) => c.type === "text";

/** parsed is a text as JSON, or the text itself. Numbers that would lose digits stay texts. */
function parsed(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "number" && text.trim().length > 15 ? text : value;
  } catch {
    return text;
  }
}

/** valueOf is the data of a result, as code of a model gets it. */
function valueOf({ content = [], structuredContent, isError, _meta }) {
  const text = content.filter(isText).map((c) => c.text).join("\n");
  if (isError) {
    const { error, message, issues, retryAfterMs } = _meta?.["dev.toolyard/error"] ?? {};
    throw new ToolError(message ?? text, { code: error, issues, retryAfterMs });
  }
  if (structuredContent !== undefined) return structuredContent;
  if (content.length === 0) return null;
  return content.every(isText) ? parsed(text) : { content };
}

/** gateTools returns functions that call tools, by the names that code of a model uses. */
export function gateTools(ctx, names) {
  const tools = {};
  for (const [name, [server, tool]] of Object.entries(names)) {
    tools[name] = async (args = {}) => valueOf(await ctx.mcp.callTool(server, tool, args));
  }
  return tools;
}
