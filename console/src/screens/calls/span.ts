// Spans of time in the address: "15m", "24h", "7d" are counted back from now, anything else
// is a moment.

const units: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The spans that can be chosen. */
export const spans = [
  { value: "", label: "Any time" },
  { value: "15m", label: "Last 15 minutes" },
  { value: "1h", label: "Last hour" },
  { value: "24h", label: "Last 24 hours" },
  { value: "7d", label: "Last 7 days" },
  { value: "30d", label: "Last 30 days" },
];

/** A moment of the address as the API takes it; undefined for none, or for what is no moment. */
export function momentOf(text: string | undefined, now: number = Date.now()): string | undefined {
  if (!text) return undefined;
  const [, n, unit] = /^(\d{1,4})([mhd])$/.exec(text) ?? [];
  if (n !== undefined && unit !== undefined) return new Date(now - Number(n) * (units[unit] ?? 0)).toISOString();
  const at = new Date(text).getTime();
  return Number.isNaN(at) ? undefined : new Date(at).toISOString();
}

/** A moment as an input of the kind datetime-local has it, in the zone of the reader. */
export function localInput(at: string | undefined): string {
  if (!at) return "";
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return "";
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
