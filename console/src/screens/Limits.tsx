import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Gauge } from "lucide-react";
import { useMemo } from "react";
import { ApiError } from "../api/client";
import { queries } from "../api/queries";
import type { Limit, Limits as LimitsData } from "../api/types";
import { Badge } from "../components/Badge";
import { Card, Stat } from "../components/Card";
import { Meter } from "../components/charts";
import { TextField } from "../components/Field";
import { Page } from "../components/Page";
import { Select } from "../components/Select";
import { EmptyState, ErrorNote } from "../components/States";
import { type Column, type RowLink, Table } from "../components/Table";
import { count, duration, money, moneyShare, percent } from "../format";
import { visible } from "../format/visible";
import { byPressure, isFull, nameOf, pressureOf, untilNext } from "./limits/pressure";
import "./Limits.css";

type Line = Limit & { nextNs: number };

const kinds = [
  { value: "", label: "All limits" },
  { value: "gate", label: "Gates" },
  { value: "server", label: "Servers" },
  { value: "tool", label: "Tools" },
];

/** The limits in force and their current use. */
export default function Limits() {
  const { q = "", kind } = useSearch({ from: "/limits" });
  const navigate = useNavigate({ from: "/limits" });
  const { data, error, refetch } = useQuery({ ...queries.limits(), refetchInterval: 1000 });
  const rows = useMemo(() => (data ? rowsOf(data, q, kind) : undefined), [data, q, kind]);
  const narrow = (more: { q?: string | undefined; kind?: string | undefined }) => void navigate({ search: (old) => ({ ...old, ...more }), replace: "q" in more });
  return (
    <Page
      title="Limits"
      description={<>Calls over a limit are queued fairly among callers. A call that would wait too long is refused with <code>RATE_LIMITED</code> and a retry time. A call that exceeds a spend limit is refused with <code>BUDGET_EXCEEDED</code>.</>}
    >
      {data && data.limits.length > 0 && <Totals limits={data.limits} />}
      <div className="Limits-filters">
        <TextField label="Filter by name" labelHidden type="search" placeholder="Filter by name" value={q} onChange={(text) => narrow({ q: text || undefined })} maxLength={200} />
        <Select label="Kind" labelHidden value={kinds.find((each) => each.value === kind)?.value ?? ""} items={kinds} onChange={(next) => narrow({ kind: next || undefined })} />
      </div>
      {data && <ErrorNote error={error} />}
      <Card flush>
        <Table label="Limits" columns={columns} rows={rows} rowKey={(line) => `${line.kind} ${line.name} ${line.per ?? ""} ${line.local ?? ""} ${line.period ?? ""}`} rowLink={linkOf} error={error} onRetry={() => void refetch()} empty={<NoLimits filtered={(data?.limits.length ?? 0) > 0} missing={error} />} />
      </Card>
    </Page>
  );
}

function rowsOf({ at, limits }: LimitsData, q: string, kind: string | undefined): Line[] {
  const words = q.toLowerCase();
  const filter = limits.filter((limit) => (!kind || limit.kind === kind) && nameOf(limit).toLowerCase().includes(words));
  return byPressure(filter).map((limit) => ({ ...limit, name: nameOf(limit), nextNs: untilNext(limit, at) }));
}

function Totals({ limits }: { limits: Limit[] }) {
  const waiting = limits.reduce((sum, limit) => sum + limit.waiting, 0);
  const full = limits.filter(isFull).length;
  const fullest = limits.reduce<Limit | undefined>((most, each) => (most && pressureOf(most) >= pressureOf(each) ? most : each), undefined);
  return (
    <div className="grid-stats Limits-stats">
      <Stat label="Queued calls" value={count(waiting)} tone={waiting > 0 ? "warn" : undefined} note="on this replica" />
      <Stat label="Limits reached" value={count(full)} tone={full > 0 ? "warn" : undefined} note={`of ${count(limits.length)}`} />
      {fullest && <Stat label="Busiest" value={percent(Math.min(1, pressureOf(fullest)), 1)} note={<span className="cut">{visible(nameOf(fullest))}</span>} />}
    </div>
  );
}

const columns: Column<Line>[] = [
  { id: "name", header: "Limit", min: 200, grow: 3, cell: (line) => <Name line={line} /> },
  { id: "waiting", header: "Queued", min: 96, align: "right", value: (line) => line.waiting, cell: (line) => <Waiting count={line.waiting} /> },
  { id: "minute", header: "Last minute", min: 170, grow: 2, value: (line) => share(line.used, line.perMinute), cell: (line) => <Usage name={`${line.name} in the last minute`} used={line.used} of={line.perMinute} per={line.per} /> },
  { id: "spend", header: "Spend", min: 190, grow: 2, drop: 3, value: (line) => (line.spentUsd ? moneyShare(line.spentUsd, line.maxUsd ?? "0") : undefined), cell: (line) => <Spend line={line} /> },
  { id: "running", header: "Concurrent", min: 160, grow: 2, drop: 1, value: (line) => share(line.running, line.concurrency), cell: (line) => <Usage name={`${line.name}, concurrent calls`} used={line.running} of={line.concurrency} per={line.per} /> },
  { id: "pause", header: "Cooldown", min: 150, drop: 2, align: "right", value: (line) => line.cooldownMs, cell: (line) => <Cooldown line={line} /> },
];

function Spend({ line: { name, maxUsd, spentUsd, period, per, renewsAt } }: { line: Line }) {
  if (!maxUsd || !period) return <span className="faint">Unlimited</span>;
  const title = renewsAt && `Renews at ${renewsAt.slice(0, 16).replace("T", " ")} UTC`;
  if (!spentUsd) return <span title={title}>{money(maxUsd)} per {period} and {per}</span>;
  return <div className="Limits-meter" title={title}><Meter label={`${name}, spend in this ${period}`} share={moneyShare(spentUsd, maxUsd)} text={`${money(spentUsd)} of ${money(maxUsd)} per ${period}`} /></div>;
}

const share = (used = 0, of?: number) => (of ? used / of : undefined);

function Name({ line }: { line: Line }) {
  return (
    <span className="Limits-name" title={visible(line.name)}>
      <span className="cut">{visible(line.name)}</span>
      <Badge>{line.kind}</Badge>
      {line.per && <Badge tone="info" title={`Each ${line.per} has this limit`}>per {line.per}</Badge>}
      {line.local && <Badge tone="info" title="Counted separately on each replica">per replica</Badge>}
    </span>
  );
}

function Waiting({ count: n }: { count: number }) {
  return n > 0 ? <Badge tone="warn"><span className="Limits-waiting">{count(n)}</span> queued</Badge> : <span className="faint">0</span>;
}

function Usage({ name, used = 0, of, per }: { name: string; used?: number | undefined; of: number | undefined; per: Limit["per"] }) {
  if (!of) return <span className="faint">Unlimited</span>;
  if (per) return <span>{count(of)} per {per}</span>;
  return <div className="Limits-meter"><Meter label={name} share={used / of} text={`${count(used)} of ${count(of)}`} /></div>;
}

function Cooldown({ line }: { line: Line }) {
  if (!line.cooldownMs && line.nextNs === 0) return <span className="faint">none</span>;
  return (
    <span>
      {line.cooldownMs ? duration(line.cooldownMs * 1e6) : ""}
      {line.nextNs > 0 && <span className="warn"> next in {duration(line.nextNs)}</span>}
    </span>
  );
}

function linkOf(line: Line): RowLink | undefined {
  if (line.kind === "tool" && line.tool) return { to: "/tools/$source/$name", params: { source: line.server ?? "-", name: line.tool } };
  if (line.kind === "gate" && line.gate) return { to: "/gates", search: { gate: line.gate } };
  return line.server ? { to: "/servers/$id", params: { id: line.server } } : undefined;
}

function NoLimits({ filtered, missing }: { filtered: boolean; missing: unknown }) {
  if (filtered) return <EmptyState icon={<Gauge />} title="No matching limits" />;
  if (missing instanceof ApiError) return <EmptyState icon={<Gauge />} title="Limits are not available">{missing.message}</EmptyState>;
  return (
    <EmptyState icon={<Gauge />} title="No limits">
      Limits come from a tool’s <code>rateLimit</code>, or from <code>rate</code> on a gate, server or tool in <code>toolyard.yaml</code>. They limit calls per minute, concurrent calls, or the time between calls, for all callers together, each account or each caller. <code>spend</code> limits the total price of calls per day or month.
    </EmptyState>
  );
}
