import { useQueries, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Coins } from "lucide-react";
import { useMemo, useState } from "react";
import { queries } from "../../api/queries";
import type { CostRow } from "../../api/types";
import { CallBars } from "../../components/charts";
import { Card, Stat } from "../../components/Card";
import { EmptyState, ErrorState, Skeleton } from "../../components/States";
import { Segments } from "../../components/Segments";
import { compareMoney, count, money, parseMoney, percent } from "../../format";
import { CostTable } from "./CostTable";
import { isNotFound } from "./balance";
import { bucketLabel, bucketsOf, bucketTitle, dayTitle, type Grain, grainsOf, lengthOf, previousOf, type Range } from "./range";
import { SpendChart } from "./SpendChart";
import { byBucket, type Share, shares, shifted, type Totals, totalOf } from "./totals";

type CostsViewProps = {
  range: Range;
  grain: Grain | undefined;
  account: string | undefined;
  search: { since?: string | undefined; until?: string | undefined };
  own: boolean;
  onGrain: (grain: Grain) => void;
};

/** The maximum number of accounts and tools listed. The totals include all of them. */
const maxRanked = 200;
const maxStacked = 4; // accounts with their own color in the chart

/** A period's costs: in total, over time, by account and by tool. */
export function CostsView({ range, grain: chosen, account, search, own, onGrain }: CostsViewProps) {
  const { since, until } = range;
  const { offered, standard } = useMemo(() => grainsOf(range), [range]);
  const grain = chosen && offered.includes(chosen) ? chosen : standard;
  const totals = useQuery(queries.costs({ account, since, until, by: grain }));
  const accounts = useQuery({ ...queries.costs({ account, since, until, by: "account", top: maxRanked }), enabled: !own });
  const tools = useQuery(queries.costs({ account, since, until, by: "tool", top: maxRanked }));
  const nothing = isNotFound(totals.error) ? <NoRecord /> : totals.data?.costs.length === 0 ? <NoCalls range={range} account={own ? "your account" : account} /> : undefined;
  if (nothing) return <Card>{nothing}</Card>;
  const ranking = own || account ? [] : (accounts.data?.costs ?? []);
  return (
    <div className="stack">
      {totals.data ? (
        <Period range={range} grain={grain} offered={offered} costs={totals.data.costs} ranking={ranking} account={account} onGrain={onGrain} />
      ) : (
        <Card>{totals.error ? <ErrorState error={totals.error} onRetry={() => void totals.refetch()} /> : <Skeleton height={280} />}</Card>
      )}
      {!own && (
        <Card title="By account" description={ranked(accounts.data?.costs)} flush>
          <CostTable label="Costs by account" header="Account" rows={accounts.data?.costs} error={accounts.error} onRetry={() => void accounts.refetch()} link={(row) => (row.account ? { to: "/spend", search: { ...search, account: row.account } } : undefined)} />
        </Card>
      )}
      <Card title="By tool" description={ranked(tools.data?.costs)} flush>
        <CostTable label="Costs by tool" header="Tool" rows={tools.data?.costs} error={tools.error} onRetry={() => void tools.refetch()} link={own ? callsLink : toolLink} />
      </Card>
    </div>
  );
}

function NoRecord() {
  return (
    <EmptyState icon={<Coins />} title="No store configured">
      Costs are computed from recorded calls. Add <code>store: sqlite:toolyard.db</code> to <code>toolyard.yaml</code> to record them.
    </EmptyState>
  );
}

function NoCalls({ range, account }: { range: Range; account: string | undefined }) {
  const when = range.first === range.last ? `on ${dayTitle(range.first)}` : `from ${dayTitle(range.first)} to ${dayTitle(range.last)}`;
  return (
    <EmptyState icon={<Coins />} title="No calls in this period">
      There were no calls{account ? ` for ${account}` : ""} {when}. Choose another period, or watch live <Link to="/calls">calls</Link> as they happen.
    </EmptyState>
  );
}

function toolLink(row: CostRow) {
  return row.tool ? ({ to: "/tools/$source/$name", params: { source: row.server || "-", name: row.tool } } as const) : undefined;
}

/** Links to a tool's calls, for callers that cannot view the tool. */
function callsLink({ server, tool }: CostRow) {
  return tool ? ({ to: "/calls", search: { server: server || "-", tool } } as const) : undefined;
}


const ranked = (rows: CostRow[] | undefined) => (rows?.length === maxRanked ? `top ${maxRanked} by spend` : undefined);

type PeriodProps = { range: Range; grain: Grain; offered: Grain[]; costs: CostRow[]; ranking: CostRow[]; account: string | undefined; onGrain: (grain: Grain) => void };

const grainItems: Record<Grain, { value: Grain; label: string }> = { day: { value: "day", label: "Day" }, week: { value: "week", label: "Week" }, month: { value: "month", label: "Month" } };

function Period({ range, grain, offered, costs, ranking, account, onGrain }: PeriodProps) {
  const total = totalOf(costs);
  const [shown, setShown] = useState<"usd" | "calls">(total.usd === "0" ? "calls" : "usd");
  const buckets = useMemo(() => byBucket(bucketsOf(range, grain), costs), [range, grain, costs]);
  const before = usePrevious(range, account);
  const parts = useParts(range, grain, buckets.map((each) => each.usd), ranking);
  const points = buckets.map(({ bucket, calls, errors }) => ({ key: bucket, label: bucketLabel(bucket, grain), title: bucketTitle(bucket, grain), ok: calls - errors, errors }));
  const controls = (
    <div className="row-wrap">
      <Segments label="Measure" value={shown} items={[{ value: "usd", label: "Spend" }, { value: "calls", label: "Calls" }]} onChange={setShown} />
      {offered.length > 1 && <Segments label="Group by" value={grain} items={offered.map((each) => grainItems[each])} onChange={onGrain} />}
    </div>
  );
  return (
    <>
      <Sums range={range} total={total} before={before && totalOf(before.costs)} />
      <Card title={shown === "usd" ? "Spend over time" : "Calls over time"} actions={controls}>
        {shown === "usd" ? <SpendChart grain={grain} buckets={buckets} parts={parts} previous={before && shifted(buckets.map((each) => each.bucket), before.costs, before.days, grain)} /> : <CallBars label={`Calls by ${grain}`} points={points} height={180} />}
      </Card>
    </>
  );
}

/** The previous period's costs, by day. */
function usePrevious(range: Range, account: string | undefined): { costs: CostRow[]; days: number } | undefined {
  const previous = useMemo(() => previousOf(range), [range]);
  const { data } = useQuery({ ...queries.costs({ account, since: previous?.since, until: previous?.until, by: "day" }), enabled: previous !== undefined });
  return useMemo(() => (data && previous ? { costs: data.costs, days: previous.days } : undefined), [data, previous]);
}

/** The top accounts' spend, and that of all others combined. */
function useParts(range: Range, grain: Grain, totals: string[], ranking: CostRow[]): Share[] {
  const names = ranking.filter((row) => compareMoney(row.usd, "0") > 0).slice(0, maxStacked).map((row) => row.account ?? "");
  const requested = names.length > 1 ? names : [];
  const found = useQueries({ queries: requested.map((account) => queries.costs({ account, since: range.since, until: range.until, by: grain })) });
  if (requested.length === 0 || found.some(({ data }) => !data)) return [{ name: names[0] ?? "Spend", usd: totals }];
  const buckets = bucketsOf(range, grain);
  return shares(totals, requested.map((name, i) => ({ name, usd: byBucket(buckets, found[i]?.data?.costs ?? []).map((each) => each.usd) })));
}

function Sums({ range, total, before }: { range: Range; total: Totals; before: Totals | undefined }) {
  const days = range.first === range.last ? `${dayTitle(range.first)}, UTC` : `${dayTitle(range.first)} to ${dayTitle(range.last)}, UTC`;
  return (
    <div className="grid-stats Spend-stats">
      <Stat label="Spent" value={money(total.usd)} note={days} />
      {before && <Stat label="Change" value={growth(total.usd, before.usd)} note={`${money(before.usd)} in the previous ${lengthOf(range) === 1 ? "day" : `${lengthOf(range)} days`}`} />}
      <Stat label="Calls" value={count(total.calls)} note={`${count(total.charged)} paid`} />
      <Stat label="Failed" value={count(total.errors)} note={`${percent(total.errors, total.calls)} of calls`} />
    </div>
  );
}

/** The relative change of an amount: "+12%", "−3%", or "—" from zero. */
function growth(now: string, before: string): string {
  const [a, b] = [parseMoney(now) ?? 0n, parseMoney(before) ?? 0n];
  if (b === 0n) return "—";
  const change = Number(((a - b) * 1000n) / b) / 10;
  return `${change < 0 ? "−" : "+"}${Math.abs(change) >= 10 ? Math.round(Math.abs(change)) : Math.abs(change)}%`;
}
