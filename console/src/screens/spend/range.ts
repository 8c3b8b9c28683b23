// The cost report's period and its chart's buckets. Days are in UTC.

const day = 86_400_000;
const maxBands = 62; // number of bars that fit on a phone

export const presets = [
  { value: "today", label: "Today", days: 1 },
  { value: "7d", label: "7 days", days: 7 },
  { value: "30d", label: "30 days", days: 30 },
  { value: "90d", label: "90 days", days: 90 },
  { value: "366d", label: "12 months", days: 366 },
];

export type Range = {
  /** The chosen preset, or custom. */
  choice: string;
  /** The first and last day, both inclusive. */
  first: string;
  last: string;
  /** The same period for the API; until is exclusive. */
  since: string;
  until: string | undefined;
};

/** Parses the period in the URL. The default is the last seven days. */
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

/** The number of days in a period. */
export function lengthOf({ first, last }: Pick<Range, "first" | "last">): number {
  return Math.round((timeOf(last) - timeOf(first)) / day) + 1;
}

/** The preceding period of the same length; undefined if the period is longer than the retention. */
export function previousOf(range: Range): { since: string; until: string; days: number } | undefined {
  const days = lengthOf(range);
  if (days > 400) return undefined;
  return { since: `${dayText(timeOf(range.first) - days * day)}T00:00:00Z`, until: `${range.first}T00:00:00Z`, days };
}

/** Adds days to a day. */
export function dayAfter(text: string, days: number): string {
  return dayText(timeOf(text) + days * day);
}

export const grains = ["day", "week", "month"] as const;
export type Grain = (typeof grains)[number];

/** The grains that make a period's chart readable, and the default grain. */
export function grainsOf(range: Pick<Range, "first" | "last">): { offered: Grain[]; standard: Grain } {
  const days = lengthOf(range);
  const offered = grains.filter((grain) => bucketsOf(range, grain, maxBands + 1).length <= maxBands && (grain === "day" || days > (grain === "week" ? 7 : 31)));
  const standard = days <= 31 ? "day" : days <= 190 ? "week" : "month";
  return { offered: offered.length > 0 ? offered : ["month"], standard: offered.includes(standard) ? standard : (offered[0] ?? "month") };
}

/** The first day of the bucket that contains a day. Weeks start on Monday. */
export function bucketOf(text: string, grain: Grain): string {
  if (grain === "month") return `${text.slice(0, 7)}-01`;
  if (grain === "day") return text;
  const at = timeOf(text);
  return dayText(at - ((new Date(at).getUTCDay() + 6) % 7) * day);
}

/** A period's buckets, oldest first, limited to the most recent ones. */
export function bucketsOf({ first, last }: Pick<Range, "first" | "last">, grain: Grain, most = maxBands): string[] {
  const buckets: string[] = [];
  for (let at = bucketOf(last, grain); at >= bucketOf(first, grain) && buckets.length < most; at = bucketOf(dayText(timeOf(at) - day), grain)) buckets.unshift(at);
  return buckets;
}

function timeOf(text: string): number {
  return Date.parse(`${text.slice(0, 10)}T00:00:00Z`);
}

function dayStart(text: string | undefined): number | undefined {
  if (!text || !/^\d{4}-\d{2}-\d{2}$/.test(text)) return undefined;
  const at = timeOf(text);
  return Number.isNaN(at) || dayText(at) !== text ? undefined : at;
}

function dayText(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}

const format = (options: Intl.DateTimeFormatOptions) => {
  const formatter = new Intl.DateTimeFormat("en-GB", { ...options, timeZone: "UTC" });
  return (text: string) => formatter.format(timeOf(text)).replace(",", "");
};

/** A day: "Sun 15 Nov". */
export const dayTitle = format({ weekday: "short", day: "numeric", month: "short" });
const dayLabel = format({ day: "numeric", month: "short" });
const monthLabel = format({ month: "short" });
const monthTitle = format({ month: "long", year: "numeric" });

/** A bucket's label on the axis: "15 Nov", "Nov", "Jan 26". */
export function bucketLabel(bucket: string, grain: Grain): string {
  if (grain !== "month") return dayLabel(bucket);
  return bucket.slice(5, 7) === "01" ? `${monthLabel(bucket)} ${bucket.slice(2, 4)}` : monthLabel(bucket);
}

/** A bucket's full name: "Sun 15 Nov", "Week of 9 Nov", "November 2026". */
export function bucketTitle(bucket: string, grain: Grain): string {
  if (grain === "day") return dayTitle(bucket);
  return grain === "week" ? `Week of ${dayLabel(bucket)}` : monthTitle(bucket);
}
