// Conversions between JSON values and HTML inputs: dates, times and files.

const localFormat = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})$/i;

/** Reports whether an input can represent a value. Other values are edited as text, so that the form shows what is sent. */
export function canShow(input: string, value: unknown): boolean {
  if (value === undefined || value === null || value === "") return true;
  if (typeof value !== "string") return false;
  if (input === "date") return /^\d{4}-\d{2}-\d{2}$/.test(value) && !Number.isNaN(Date.parse(value));
  if (input === "time") return /^\d{2}:\d{2}(:\d{2})?$/.test(value);
  if (input === "datetime") return localFormat.test(value) && !Number.isNaN(Date.parse(value));
  return !value.includes("\n");
}

/** Converts an RFC 3339 time to the value of a datetime-local input. */
export function localMoment(value: unknown): string {
  if (typeof value !== "string" || value === "") return "";
  const at = new Date(value);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** Converts the value of a datetime-local input to RFC 3339 in UTC. */
export function utcMoment(text: string): string {
  const at = new Date(text);
  return text === "" || Number.isNaN(at.getTime()) ? "" : at.toISOString().replace(/\.000Z$/, "Z");
}

/** The content of a file as base64. */
export async function base64Of(file: Blob): Promise<string> {
  const data = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let i = 0; i < data.length; i += 8192) text += String.fromCharCode(...data.subarray(i, i + 8192));
  return btoa(text);
}
