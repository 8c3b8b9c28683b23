import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Coins } from "lucide-react";
import { useMemo } from "react";
import { queries } from "../../api/queries";
import type { CostRow } from "../../api/types";
import { Bars } from "../../components/charts";
import { Card, Stat } from "../../components/Card";
import { EmptyState, ErrorState, Skeleton } from "../../components/States";
import { Tabs } from "../../components/Tabs";
import { count, money, percent } from "../../format";
import { CostTable } from "./CostTable";
import { DayBars } from "./DayBars";
import { isMissing } from "./purse";
import { daysOf, dayWords, type Range } from "./range";
import { byDay, totalOf } from "./totals";

type CostsViewProps = { range: Range; account: string | undefined; search: { since?: string | undefined; until?: string | undefined }; own: boolean };

/** How many accounts and tools are ranked. The sums above are of all. */
const top = 200;

/** What calls have cost in a span of days: in all, by day, by account and by tool. */
export function CostsView({ range, account, search, own }: CostsViewProps) {
  const { since, until } = range;
  const days = useQuery(queries.costs({ account, since, until, by: "day" }));
  const accounts = useQuery({ ...queries.costs({ account, since, until, by: "account", top }), enabled: !own });
  const tools = useQuery(queries.costs({ account, since, until, by: "tool", top }));
  const nothing = isMissing(days.error) ? <NoRecord /> : days.data?.costs.length === 0 ? <NoCalls range={range} account={own ? "your account" : account} /> : undefined;
  if (nothing) return <Card>{nothing}</Card>;
  return (
    <div className="stack">
      <DaysPart range={range} costs={days.data?.costs} error={days.error} retry={() => void days.refetch()} />
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
    <EmptyState icon={<Coins />} title="This yard keeps no record">
      What calls cost is added up from the record, which is kept in a store: <code>store: sqlite:toolyard.db</code> in <code>toolyard.yaml</code>.
    </EmptyState>
  );
}

function NoCalls({ range, account }: { range: Range; account: string | undefined }) {
  const when = range.first === range.last ? `on ${dayWords(range.first)}` : `from ${dayWords(range.first)} to ${dayWords(range.last)}`;
  return (
    <EmptyState icon={<Coins />} title="Nothing was called">
      {account ? `Nobody called a tool for ${account}` : "Nobody called a tool"} {when}. Choose other days, or see the <Link to="/calls">calls</Link> as they come.
    </EmptyState>
  );
}

function toolLink(row: CostRow) {
  return row.tool ? ({ to: "/tools/$source/$name", params: { source: row.server || "-", name: row.tool } } as const) : undefined;
}

/** Who may not see the tool sees its calls. */
function callsLink({ server, tool }: CostRow) {
  return tool ? ({ to: "/calls", search: { server: server || "-", tool } } as const) : undefined;
}

/** Says that there may be more than the ranking shows. */
const ranked = (rows: CostRow[] | undefined) => (rows?.length === top ? `the ${top} that cost most` : undefined);

type DaysPartProps = { range: Range; costs: CostRow[] | undefined; error: unknown; retry: () => void };

function DaysPart({ range, costs, error, retry }: DaysPartProps) {
  const days = useMemo(() => byDay(daysOf(range), costs ?? []), [range, costs]);
  if (!costs) return <Card>{error ? <ErrorState error={error} onRetry={retry} /> : <Skeleton height={280} />}</Card>;
  const total = totalOf(costs);
  const calls = days.map((each) => ({ at: each.day, ok: each.calls - each.errors, errors: each.errors }));
  const tabs = [
    { id: "usd", label: "Dollars", content: <DayBars days={days} /> },
    { id: "calls", label: "Calls", content: <Bars label="Calls by day" points={calls} moment={dayWords} /> },
  ];
  return (
    <>
      <div className="grid-stats Spend-stats">
        <Stat label="Spent" value={money(total.usd)} note={range.first === range.last ? dayWords(range.first) : `${dayWords(range.first)} to ${dayWords(range.last)}, UTC`} />
        <Stat label="Calls" value={count(total.calls)} note={`${count(total.charged)} of them cost something`} />
        <Stat label="Failed" value={count(total.errors)} note={`${percent(total.errors, total.calls)} of the calls`} />
      </div>
      <Card title="By day"><Tabs key={total.usd === "0" ? "free" : "paid"} label="What is counted" tabs={total.usd === "0" ? tabs.toReversed() : tabs} /></Card>
    </>
  );
}
