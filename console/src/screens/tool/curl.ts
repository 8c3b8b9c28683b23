import type { JsonObject } from "../../api/json";

type Request = { tool: string; gate: string; args: JsonObject; idempotencyKey?: string | undefined; session?: string | undefined };

/** The call as a command for a shell. The key is a variable: it is never part of what is copied. */
export function curl(request: Request, keyed: boolean, origin: string = location.origin): string {
  const key = keyed ? ` \\\n  -H "Authorization: Bearer $TOOLYARD_KEY"` : "";
  return `curl ${origin}/api/v1/calls${key} \\\n  -H 'Content-Type: application/json' \\\n  -d ${quoted(JSON.stringify(request))}`;
}

/** A text as one word of a POSIX shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
