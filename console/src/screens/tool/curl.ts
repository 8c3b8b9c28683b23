import type { JsonObject } from "../../api/json";

type Request = { tool: string; gate: string; args: JsonObject; idempotencyKey?: string | undefined; session?: string | undefined; asOf?: string | undefined };

/** The call as a curl command. The key is a shell variable, never a literal. */
export function curl(request: Request, keyed: boolean, origin: string = location.origin): string {
  const key = keyed ? ` \\\n  -H "Authorization: Bearer $TOOLYARD_KEY"` : "";
  return `curl ${origin}/api/v1/calls${key} \\\n  -H 'Content-Type: application/json' \\\n  -d ${quoted(JSON.stringify(request))}`;
}

/** Quotes a text for a POSIX shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
