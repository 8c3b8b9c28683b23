import { queryOptions } from "@tanstack/react-query";
import { ApiError, get } from "../../api/client";
import type { Purse } from "../../api/types";
import { addMoney, moneyText, parseMoney } from "../../format";

/** The caller's own account, for who may not see those of others. */
export const ownAccount = () =>
  queryOptions({ queryKey: ["accounts", "own"], queryFn: ({ signal }) => get<Purse>("/account", {}, signal), staleTime: 10_000 });

/** What can be spent now: what is left, without what calls in flight have set aside. */
export function availableOf({ remainingUsd, heldUsd }: Purse): string {
  return moneyText((parseMoney(remainingUsd) ?? 0n) - (parseMoney(heldUsd) ?? 0n));
}

/** All that an account has ever had. */
export function everOf({ remainingUsd, spentUsd }: Purse): string {
  return addMoney(remainingUsd, spentUsd);
}

/** Whether the yard has no such thing at all, for want of a store. */
export function isMissing(error: unknown): boolean {
  return error instanceof ApiError && error.status === 404;
}

/** An amount that a person typed: a decimal that is not nothing. */
export function amountOf(text: string): string | undefined {
  const amount = parseMoney(text.replace(/^\$/, "").replaceAll(",", ""));
  return amount === undefined || amount === 0n ? undefined : moneyText(amount);
}
