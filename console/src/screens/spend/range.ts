// The span of days that costs are asked for. Days are those of UTC, as the record has them.

const day = 86_400_000;
const mostDays = 400; // days that are drawn

export const presets = [
  { value: "today", label: "Today", days: 1 },
  { value: "7d", label: "7 days", days: 7 },
  { value: "30d", label: "30 days", days: 30 },
];

export type Range = {
  /** What was chosen: one of the presets, or custom. */
  choice: string;
  /** The first and the last day, both included. */
  first: string;
  last: string;
  /** The same as the API takes it: until itself is left out. */
  since: string;
  until: string | undefined;
};

/** Reads the span of the address; what is no day counts as the last seven. */
export function rangeOf(since: string | undefined, until: string | undefined, now: number = Date.now()): Range {
  const today = dayText(now);
  const preset = presets.find((each) => each.value === (since ?? "7d"));
  const from = dayStart(since);
  if (preset || from === undefined) {
    const { value, days } = preset ?? { value: "7d", days: 7 };
    const first = dayText(now - (days - 1) * day);
    return { choice: value, first, last: today, since: `${first}T00:00:00Z`, until: undefined };
  }
  const to = Math.max(from, dayStart(until) ?? now);
  const [first, last] = [dayText(from), dayText(to)];
  return { choice: "custom", first, last, since: `${first}T00:00:00Z`, until: last < today ? `${dayText(to + day)}T00:00:00Z` : undefined };
}

/** Every day of a span; only its last ones when there are very many. */
export function daysOf({ first, last }: Pick<Range, "first" | "last">): string[] {
  const end = Date.parse(`${last}T00:00:00Z`);
  const start = Math.max(Date.parse(`${first}T00:00:00Z`), end - (mostDays - 1) * day);
  return Array.from({ length: Math.round((end - start) / day) + 1 }, (_, i) => dayText(start + i * day));
}

function dayStart(text: string | undefined): number | undefined {
  if (!text || !/^\d{4}-\d{2}-\d{2}$/.test(text)) return undefined;
  const at = Date.parse(`${text}T00:00:00Z`);
  return Number.isNaN(at) || dayText(at) !== text ? undefined : at;
}

function dayText(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}

const named = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short", timeZone: "UTC" });

/** A day as people write it: "Sun 15 Nov". */
export function dayWords(text: string): string {
  return named.format(new Date(`${text.slice(0, 10)}T00:00:00Z`)).replace(",", "");
}
