import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { Timer } from "lucide-react";
import { useMemo, useState } from "react";
import { closeSession } from "../../api/actions";
import { queries } from "../../api/queries";
import type { Balance } from "../../api/types";
import { StateStatus } from "../../components/Badge";
import { Button } from "../../components/Button";
import { Card } from "../../components/Card";
import { Meter } from "../../components/charts";
import { Confirm } from "../../components/Dialog";
import { Select } from "../../components/Select";
import { EmptyState } from "../../components/States";
import { type Column, Table } from "../../components/Table";
import { Time } from "../../components/Time";
import { toast } from "../../components/Toast";
import { count, money, moneyShare, parseMoney, plural } from "../../format";
import { oneOf } from "../../search";
import { useMe } from "../../session";
import { NoLedger } from "./NoLedger";
import { isNotFound } from "./balance";

const states = [
  { value: "", label: "All" },
  { value: "open", label: "Open" },
  { value: "closed", label: "Closed" },
  { value: "expired", label: "Expired" },
];

type SessionsProps = { account: string | undefined; own: boolean; state: string | undefined; onState: (state: string | undefined) => void };

/** Sessions with their budgets. */
export function Sessions({ account, own, state, onState }: SessionsProps) {
  const me = useMe();
  const [closing, setClosing] = useState<Balance>();
  const known = oneOf(["open", "closed", "expired"], state);
  const sessions = useInfiniteQuery(queries.sessions({ account, state: known, limit: 100 }));
  const columns = useMemo(() => {
    const columns = columnsOf((purse) => me?.role === "operator" || me?.account === purse.account, setClosing);
    return own ? columns.filter(({ id }) => id !== "account") : columns;
  }, [me, own]);
  if (isNotFound(sessions.error)) return <Card><NoLedger /></Card>;
  return (
    <Card flush title="Sessions" description="A session is a budget reserved from an account. The remainder returns to the account when the session ends." actions={<Select label="State" labelHidden value={known ?? ""} items={states} onChange={(next) => onState(next || undefined)} />}>
      <Table
        label="Sessions"
        columns={columns}
        rows={sessions.data?.pages.flatMap((page) => page.sessions)}
        rowKey={(purse) => purse.id}
        rowLink={(purse) => ({ to: "/calls", search: { session: purse.id } })}
        error={sessions.error}
        onRetry={() => void sessions.refetch()}
        empty={<EmptyState icon={<Timer />} title={known || account ? "No matching sessions" : "No sessions yet"}>Agents open one with <code>POST /api/v1/sessions</code> to limit their spend.</EmptyState>}
        {...(sessions.hasNextPage && { more: { load: () => void sessions.fetchNextPage(), loading: sessions.isFetchingNextPage } })}
      />
      <Close purse={closing} onClose={() => setClosing(undefined)} />
    </Card>
  );
}

function columnsOf(mayClose: (purse: Balance) => boolean, close: (purse: Balance) => void): Column<Balance>[] {
  return [
    { id: "id", header: "Session", min: 190, grow: 2, cell: (purse) => <span className="mono" title={`Calls in ${purse.id}`}>{purse.id}</span> },
    { id: "account", header: "Account", min: 120, grow: 1, drop: 1, cell: (purse) => <span className="cut" title={purse.account}>{purse.account}</span> },
    { id: "state", header: "State", min: 92, cell: (purse) => <StateStatus state={purse.status} /> },
    { id: "spent", header: "Spent of limit", min: 200, grow: 1, cell: (purse) => <Budget purse={purse} /> },
    { id: "left", header: "Remaining", min: 88, drop: 3, align: "right", cell: (purse) => <span title={`${money(purse.heldUsd)} is held for running calls`}>{money(purse.remainingUsd)}</span> },
    { id: "calls", header: "Calls", min: 104, drop: 4, align: "right", cell: (purse) => <Calls purse={purse} /> },
    { id: "expires", header: "Expires", min: 92, drop: 2, align: "right", cell: (purse) => <Time at={purse.expiresAt} /> },
    {
      id: "close",
      header: "",
      min: 88,
      align: "right",
      cell: (purse) => purse.status === "open" && mayClose(purse) && <Button size="s" variant="danger" onClick={() => close(purse)} aria-label={`Close ${purse.id}`}>Close</Button>,
    },
  ];
}

function Budget({ purse }: { purse: Balance }) {
  if ((parseMoney(purse.limitUsd) ?? 0n) === 0n) return <span className="faint">calls only</span>;
  return <div className="Spend-meter"><Meter label={`Spent by ${purse.id}`} share={moneyShare(purse.spentUsd, purse.limitUsd)} text={`${money(purse.spentUsd)} of ${money(purse.limitUsd)}`} /></div>;
}

function Calls({ purse }: { purse: Balance }) {
  if (!purse.maxCalls) return <span className="faint">Unlimited</span>;
  return <span title={`${plural(purse.calls ?? 0, "call")} of ${count(purse.maxCalls)}`}>{count(purse.calls ?? 0)} of {count(purse.maxCalls)}</span>;
}

function Close({ purse, onClose }: { purse: Balance | undefined; onClose: () => void }) {
  const client = useQueryClient();
  if (!purse) return null;
  const close = async () => {
    await closeSession(purse.id);
    await Promise.all(["sessions", "accounts"].map((key) => client.invalidateQueries({ queryKey: [key] })));
    toast.good(`Session closed. The remaining balance was returned to ${purse.account}.`);
  };
  return (
    <Confirm open onClose={onClose} title="Close this session?" action="Close session" danger onConfirm={close}>
      <p><code className="wrap-anywhere">{purse.id}</code> of {purse.account} has {money(purse.remainingUsd)} left.</p>
      <p className="soft">New calls are refused; running calls finish first. The remaining balance returns to the account. A closed session cannot be reopened.</p>
    </Confirm>
  );
}
