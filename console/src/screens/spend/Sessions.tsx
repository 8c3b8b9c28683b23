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
    const columns = columnsOf((session) => me?.role === "operator" || me?.account === session.account, setClosing);
    return own ? columns.filter(({ id }) => id !== "account") : columns;
  }, [me, own]);
  if (isNotFound(sessions.error)) return <Card><NoLedger /></Card>;
  return (
    <Card flush title="Sessions" description="A session is a budget reserved from an account. The remainder returns to the account when the session ends." actions={<Select label="State" labelHidden value={known ?? ""} items={states} onChange={(next) => onState(next || undefined)} />}>
      <Table
        label="Sessions"
        columns={columns}
        rows={sessions.data?.pages.flatMap((page) => page.sessions)}
        rowKey={(session) => session.id}
        rowLink={(session) => ({ to: "/calls", search: { session: session.id } })}
        error={sessions.error}
        onRetry={() => void sessions.refetch()}
        empty={<EmptyState icon={<Timer />} title={known || account ? "No matching sessions" : "No sessions yet"}>Agents open one with <code>POST /api/v1/sessions</code> to limit their spend.</EmptyState>}
        {...(sessions.hasNextPage && { more: { load: () => void sessions.fetchNextPage(), loading: sessions.isFetchingNextPage } })}
      />
      <Close session={closing} onClose={() => setClosing(undefined)} />
    </Card>
  );
}

function columnsOf(mayClose: (session: Balance) => boolean, close: (session: Balance) => void): Column<Balance>[] {
  return [
    { id: "id", header: "Session", min: 190, grow: 2, cell: (session) => <span className="mono" title={`Calls in ${session.id}`}>{session.id}</span> },
    { id: "account", header: "Account", min: 120, grow: 1, drop: 1, cell: (session) => <span className="cut" title={session.account}>{session.account}</span> },
    { id: "state", header: "State", min: 92, cell: (session) => <StateStatus state={session.status} /> },
    { id: "spent", header: "Spent of limit", min: 200, grow: 1, cell: (session) => <Budget session={session} /> },
    { id: "left", header: "Remaining", min: 88, drop: 3, align: "right", cell: (session) => <span title={`${money(session.heldUsd)} is held for running calls`}>{money(session.remainingUsd)}</span> },
    { id: "calls", header: "Calls", min: 104, drop: 4, align: "right", cell: (session) => <Calls session={session} /> },
    { id: "expires", header: "Expires", min: 92, drop: 2, align: "right", cell: (session) => <Time at={session.expiresAt} /> },
    {
      id: "close",
      header: "",
      min: 88,
      align: "right",
      cell: (session) => session.status === "open" && mayClose(session) && <Button size="s" variant="danger" onClick={() => close(session)} aria-label={`Close ${session.id}`}>Close</Button>,
    },
  ];
}

function Budget({ session }: { session: Balance }) {
  if ((parseMoney(session.limitUsd) ?? 0n) === 0n) return <span className="faint">calls only</span>;
  return <div className="Spend-meter"><Meter label={`Spent by ${session.id}`} share={moneyShare(session.spentUsd, session.limitUsd)} text={`${money(session.spentUsd)} of ${money(session.limitUsd)}`} /></div>;
}

function Calls({ session }: { session: Balance }) {
  if (!session.maxCalls) return <span className="faint">Unlimited</span>;
  return <span title={`${plural(session.calls ?? 0, "call")} of ${count(session.maxCalls)}`}>{count(session.calls ?? 0)} of {count(session.maxCalls)}</span>;
}

function Close({ session, onClose }: { session: Balance | undefined; onClose: () => void }) {
  const client = useQueryClient();
  if (!session) return null;
  const close = async () => {
    await closeSession(session.id);
    await Promise.all(["sessions", "accounts"].map((key) => client.invalidateQueries({ queryKey: [key] })));
    toast.good(`Session closed. The remaining balance was returned to ${session.account}.`);
  };
  return (
    <Confirm open onClose={onClose} title="Close this session?" action="Close session" danger onConfirm={close}>
      <p><code className="wrap-anywhere">{session.id}</code> of {session.account} has {money(session.remainingUsd)} left.</p>
      <p className="soft">New calls are refused; running calls finish first. The remaining balance returns to the account. A closed session cannot be reopened.</p>
    </Confirm>
  );
}
