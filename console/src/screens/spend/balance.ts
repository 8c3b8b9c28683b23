import { ApiError } from "../../api/client";
import type { Balance } from "../../api/types";
import { addMoney, moneyText, parseMoney } from "../../format";

/** The spendable amount: the remaining balance minus amounts held for running calls. */
export function availableOf({ remainingUsd, heldUsd }: Balance): string {
  return moneyText((parseMoney(remainingUsd) ?? 0n) - (parseMoney(heldUsd) ?? 0n));
}

/** All funds that were ever added, whether spent or remaining. */
export function totalFundsOf({ remainingUsd, spentUsd }: Balance): string {
  return addMoney(remainingUsd, spentUsd);
}

/** Reports whether the resource does not exist, for example because the yard has no store. */
export function isNotFound(error: unknown): boolean {
  return error instanceof ApiError && error.status === 404;
}

/** Parses an amount from an input; undefined if it is invalid or zero. */
export function parseAmount(text: string): string | undefined {
  const amount = parseMoney(text.replace(/^\$/, "").replaceAll(",", ""));
  return amount === undefined || amount === 0n ? undefined : moneyText(amount);
}
