import { useQuery } from "@tanstack/react-query";
import { Wallet } from "lucide-react";
import { queries } from "../../api/queries";
import { Card, Stat } from "../../components/Card";
import { EmptyState, ErrorState, Skeleton } from "../../components/States";
import { money } from "../../format";
import { useMe } from "../../session";
import { Usage } from "./Accounts";
import { NoLedger } from "./NoLedger";
import { availableOf, isNotFound } from "./balance";

/** The signed-in caller's account. */
export function OwnAccount() {
  const me = useMe();
  const { data: balance, error, refetch } = useQuery(queries.account());
  if (isNotFound(error)) return <Card><NoLedger /></Card>;
  if (!balance) return <Card>{error ? <ErrorState error={error} onRetry={() => void refetch()} /> : <Skeleton lines={3} />}</Card>;
  if ([balance.remainingUsd, balance.spentUsd].every((amount) => Number(amount) === 0)) return <Card><NoMoney account={me?.account} /></Card>;
  return (
    <div className="stack">
      <div className="grid-stats Spend-stats">
        <Stat label="Available" value={money(availableOf(balance))} note="for calls and sessions" />
        <Stat label="Held" value={money(balance.heldUsd)} note="for running calls" />
        <Stat label="Spent" value={money(balance.spentUsd)} note="in total" />
      </div>
      <Card title={balance.id} description="Spent of total funds."><Usage balance={balance} /></Card>
    </div>
  );
}

function NoMoney({ account }: { account: string | undefined }) {
  return (
    <EmptyState icon={<Wallet />} title="Your account has no funds">
      Free tools do not need any. For paid tools, ask an operator to fund {account ? <strong className="wrap-anywhere">{account}</strong> : "it"}.
    </EmptyState>
  );
}
