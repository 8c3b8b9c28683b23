// Money is an exact decimal string in the API, and a bigint of billionths of a dollar here. It is
// never a float.

const decimals = 9;
const decimal = /^(-?)(\d+)(?:\.(\d{1,9}))?$/;

/** Parses an amount into billionths of a dollar; undefined if it is not a valid decimal. */
export function parseMoney(text: string): bigint | undefined {
  const parts = decimal.exec(text.trim());
  if (!parts) return undefined;
  const [, sign = "", whole = "", fraction = ""] = parts;
  const amount = BigInt(whole + fraction.padEnd(decimals, "0"));
  return sign === "-" ? -amount : amount;
}

/** An amount's shortest decimal, for the API. */
export function moneyText(amount: bigint): string {
  const [sign, n] = amount < 0n ? ["-", -amount] : ["", amount];
  const digits = n.toString().padStart(decimals + 1, "0");
  const fraction = digits.slice(-decimals).replace(/0+$/, "");
  return sign + digits.slice(0, -decimals) + (fraction === "" ? "" : "." + fraction);
}

/** Formats an amount with at least two decimal places and no rounding: "$1,234.50", "$0.0025". */
export function money(text: string | undefined): string {
  if (text === undefined) return "—";
  const amount = parseMoney(text);
  if (amount === undefined) return text;
  const [sign, n] = amount < 0n ? ["−", -amount] : ["", amount];
  const [whole = "0", fraction = ""] = moneyText(n).split(".");
  return `${sign}$${whole.replace(/\B(?=(\d{3})+$)/g, ",")}.${fraction.padEnd(2, "0")}`;
}

/** Formats an amount rounded to cents, for captions: "$2.33". Amounts below a dollar stay exact. */
export function roundedMoney(text: string): string {
  const amount = parseMoney(text);
  const cent = 10n ** BigInt(decimals - 2);
  if (amount === undefined || amount < 100n * cent) return money(text);
  return money(moneyText(((amount + cent / 2n) / cent) * cent));
}

/** Formats a call's price. Zero is "free". */
export function price(text: string | undefined): string {
  return text === undefined || parseMoney(text) === 0n ? "free" : money(text);
}

export function addMoney(...amounts: (string | undefined)[]): string {
  return moneyText(amounts.reduce((sum, text) => sum + (parseMoney(text ?? "0") ?? 0n), 0n));
}

/** Compares amounts, for sorting. */
export function compareMoney(a: string | undefined, b: string | undefined): number {
  const [x, y] = [parseMoney(a ?? "0") ?? 0n, parseMoney(b ?? "0") ?? 0n];
  return x < y ? -1 : x > y ? 1 : 0;
}

/** A share of a whole, from 0 to 1. It is rounded, so use it only for bar lengths. */
export function moneyShare(part: string, whole: string): number {
  const [p, w] = [parseMoney(part) ?? 0n, parseMoney(whole) ?? 0n];
  if (w <= 0n || p <= 0n) return 0;
  return Math.min(1, Number((p * 10_000n) / w) / 10_000);
}
