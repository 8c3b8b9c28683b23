import { useInfiniteQuery } from "@tanstack/react-query";
import { Wallet } from "lucide-react";
import { useMemo, useState } from "react";
import { queries } from "../../api/queries";
import type { Balance } from "../../api/types";
import { Button } from "../../components/Button";
import { Card } from "../../components/Card";
import { Meter } from "../../components/charts";
import { TextField } from "../../components/Field";
import { EmptyState } from "../../components/States";
import { type Column, Table } from "../../components/Table";
import { money, moneyShare, parseMoney } from "../../format";
import { useCanChange } from "../../session";
import { useDelayed } from "../../useDelayed";
import { FundDialog } from "./FundDialog";
import { NoLedger } from "./NoLedger";
import { availableOf, totalFundsOf, isNotFound } from "./balance";

type AccountsProps = { account: string | undefined; q: string | undefined; onFind: (q: string | undefined) => void };

/** Accounts with their balances. */
export function Accounts({ account, q = "", onFind }: AccountsProps) {
  const typed = useDelayed(q, 200);
  const accounts = useInfiniteQuery(queries.accounts({ q: account ?? (typed || undefined), limit: 100 }));
  const mayChange = useCanChange();
  const [funding, setFunding] = useState<{ account: Balance | undefined }>();
  const columns = useMemo(() => columnsOf(mayChange ? (balance) => setFunding({ account: balance }) : undefined), [mayChange]);
  if (isNotFound(accounts.error)) return <Card><NoLedger /></Card>;
  const rows = accounts.data?.pages.flatMap((page) => page.accounts).filter((each) => !account || each.id === account);
  const more = accounts.hasNextPage && !account;
  return (
    <div className="stack">
      {!account && <div className="Spend-find"><TextField label="Find accounts by prefix" labelHidden type="search" placeholder="Find by prefix" value={q} onChange={(text) => onFind(text || undefined)} maxLength={128} autoComplete="off" spellCheck={false} /></div>}
      <Card flush title="Accounts" description="Part of the remaining balance is held for running calls. The budget of an open session remains in the balance until it is spent, so these totals can differ from those under Costs." actions={mayChange && <Button size="s" onClick={() => setFunding({ account: undefined })}>Fund account</Button>}>
        <Table
          label="Accounts"
          columns={columns}
          rows={rows}
          rowKey={(balance) => balance.id}
          error={accounts.error}
          onRetry={() => void accounts.refetch()}
          empty={<NoAccount account={account} q={q} />}
          {...(more && { more: { load: () => void accounts.fetchNextPage(), loading: accounts.isFetchingNextPage } })}
        />
      </Card>
      {funding && <FundDialog balance={funding.account} onClose={() => setFunding(undefined)} />}
    </div>
  );
}

function NoAccount({ account, q }: { account: string | undefined; q: string }) {
  const title = account ? `${account} has no funds` : q ? "No matching accounts" : "No accounts yet";
  return <EmptyState icon={<Wallet />} title={title}>An account is created when it is first funded. Free tools do not need one.</EmptyState>;
}

function columnsOf(fund: ((balance: Balance) => void) | undefined): Column<Balance>[] {
  const columns: Column<Balance>[] = [
    { id: "account", header: "Account", min: 150, grow: 2, cell: (balance) => <span className="cut strong" title={balance.id}>{balance.id}</span> },
    { id: "used", header: "Spent of total funds", min: 220, grow: 2, cell: (balance) => <Usage balance={balance} /> },
    { id: "held", header: "Held", min: 96, drop: 2, align: "right", cell: (balance) => <span className="soft">{money(balance.heldUsd)}</span> },
    { id: "free", header: "Available", min: 130, align: "right", cell: (balance) => <Available balance={balance} /> },
  ];
  if (fund) columns.push({ id: "fund", header: "", min: 88, align: "right", cell: (balance) => <Button size="s" onClick={() => fund(balance)} aria-label={`Fund ${balance.id}`}>Fund</Button> });
  return columns;
}

export function Usage({ balance }: { balance: Balance }) {
  const ever = totalFundsOf(balance);
  return <div className="Spend-meter"><Meter label={`Spent by ${balance.id}`} share={moneyShare(balance.spentUsd, ever)} text={`${money(balance.spentUsd)} of ${money(ever)}`} warnFrom={0.9} /></div>;
}

function Available({ balance }: { balance: Balance }) {
  const available = availableOf(balance);
  return <span className={(parseMoney(available) ?? 0n) <= 0n ? "strong bad" : "strong"}>{money(available)}</span>;
}
