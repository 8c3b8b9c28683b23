// Time limits in the URL: "15m", "24h" and "7d" are relative to now; anything else is a timestamp.

const units: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The periods offered in the filter. */
export const spans = [
  { value: "", label: "Any time" },
  { value: "15m", label: "Last 15 minutes" },
  { value: "1h", label: "Last hour" },
  { value: "24h", label: "Last 24 hours" },
  { value: "7d", label: "Last 7 days" },
  { value: "30d", label: "Last 30 days" },
];

/** Converts a time limit in the URL for the API; undefined if empty or invalid. */
export function momentOf(text: string | undefined, now: number = Date.now()): string | undefined {
  if (!text) return undefined;
  const [, n, unit] = /^(\d{1,4})([mhd])$/.exec(text) ?? [];
  if (n !== undefined && unit !== undefined) return new Date(now - Number(n) * (units[unit] ?? 0)).toISOString();
  const at = new Date(text).getTime();
  return Number.isNaN(at) ? undefined : new Date(at).toISOString();
}

/** Converts a timestamp to the value of a datetime-local input. */
export function localInput(at: string | undefined): string {
  if (!at) return "";
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return "";
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
