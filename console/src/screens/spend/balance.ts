import { ApiError } from "../../api/client";
import type { Balance } from "../../api/types";
import { addMoney, moneyText, parseMoney } from "../../format";

/** What can be spent now: what is left, without what calls in flight have set aside. */
export function availableOf({ remainingUsd, heldUsd }: Balance): string {
  return moneyText((parseMoney(remainingUsd) ?? 0n) - (parseMoney(heldUsd) ?? 0n));
}

/** All that an account has ever had. */
export function totalFundsOf({ remainingUsd, spentUsd }: Balance): string {
  return addMoney(remainingUsd, spentUsd);
}

/** Whether the yard has no such thing at all, for want of a store. */
export function isNotFound(error: unknown): boolean {
  return error instanceof ApiError && error.status === 404;
}

/** An amount that a person typed: a decimal that is not nothing. */
export function parseAmount(text: string): string | undefined {
  const amount = parseMoney(text.replace(/^\$/, "").replaceAll(",", ""));
  return amount === undefined || amount === 0n ? undefined : moneyText(amount);
}
