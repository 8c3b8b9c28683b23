import { useQuery } from "@tanstack/react-query";
import { Card, Stat } from "../../components/Card";
import { ErrorState, Skeleton } from "../../components/States";
import { money } from "../../format";
import { Used } from "./Accounts";
import { NoLedger } from "./NoLedger";
import { availableOf, isMissing, ownAccount } from "./purse";

/** The account of who is signed in, for who may not see others. */
export function OwnAccount() {
  const { data: purse, error, refetch } = useQuery(ownAccount());
  if (isMissing(error)) return <Card><NoLedger /></Card>;
  if (!purse) return <Card>{error ? <ErrorState error={error} onRetry={() => void refetch()} /> : <Skeleton lines={3} />}</Card>;
  return (
    <div className="stack">
      <div className="grid-stats Spend-stats">
        <Stat label="Available" value={money(availableOf(purse))} note="for calls and sessions" />
        <Stat label="Held" value={money(purse.heldUsd)} note="for calls in flight" />
        <Stat label="Spent" value={money(purse.spentUsd)} note="ever" />
      </div>
      <Card title={purse.id}><Used purse={purse} /></Card>
    </div>
  );
}
