const whole = new Intl.NumberFormat("en-US");
const compact = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

/** A count in full: "12,345". */
export function count(n: number | undefined): string {
  return n === undefined ? "—" : whole.format(n);
}

/** A short count: "12.3K". */
export function shortCount(n: number): string {
  return n < 10_000 ? whole.format(n) : compact.format(n);
}

/** A number and its noun: "1 tool", "3 tools". */
export function plural(n: number, one: string, many = one + "s"): string {
  return `${whole.format(n)} ${n === 1 ? one : many}`;
}

/** A share of a whole: "0.4%", "12%". */
export function percent(part: number, all: number): string {
  if (all <= 0) return "0%";
  const share = (part / all) * 100;
  if (share === 0 || share >= 10) return `${Math.round(share)}%`;
  return share < 0.1 ? "<0.1%" : `${share.toFixed(1)}%`;
}

export function bytes(n: number): string {
  if (n < 1024) return `${n} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let value = n / 1024;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

/** A duration in nanoseconds: "850 ns", "12 µs", "3.4 ms", "1.25 s", "2 m 5 s", "3 h 2 m". */
export function duration(ns: number | undefined): string {
  if (ns === undefined) return "—";
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  if (ns < 999_500) return `${significant(ns / 1e3)} µs`;
  if (ns < 999_500_000) return `${significant(ns / 1e6)} ms`;
  if (ns < 59_950_000_000) return `${significant(ns / 1e9)} s`;
  const seconds = Math.round(ns / 1e9);
  if (seconds < 3600) return joinUnits(Math.floor(seconds / 60), "m", seconds % 60, "s");
  const minutes = Math.round(seconds / 60);
  if (minutes < 60 * 48) return joinUnits(Math.floor(minutes / 60), "h", minutes % 60, "m");
  const hours = Math.round(minutes / 60);
  return joinUnits(Math.floor(hours / 24), "d", hours % 24, "h");
}

function significant(value: number): string {
  if (value >= 99.5) return String(Math.round(value));
  return value >= 9.95 ? trim(value.toFixed(1)) : trim(value.toFixed(2));
}

function trim(text: string): string {
  return text.replace(/\.?0+$/, "");
}

function joinUnits(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
}
