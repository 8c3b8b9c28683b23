import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ApiError } from "../api/client";
import { queries } from "../api/queries";
import type { Overview as OverviewData, Traffic } from "../api/types";
import { Card, Stat } from "../components/Card";
import { CallBars } from "../components/charts/CallBars";
import { HBars } from "../components/charts/HBars";
import { Page } from "../components/Page";
import { ErrorState, Skeleton } from "../components/States";
import { Since } from "../components/Time";
import { clock, count, money, percent, plural, shortCount } from "../format";
import { Attention } from "./OverviewAttention";
import { FirstSteps } from "./OverviewFirstSteps";
import "./Overview.css";

/** The yard's tools, traffic and problems at a glance. */
export default function Overview() {
  const overview = useQuery(queries.overview());
  const traffic = useQuery(queries.traffic(60));
  const data = overview.data;
  if (!data) {
    return (
      <Page title="Overview">
        {overview.error ? <ErrorState error={overview.error} onRetry={() => void overview.refetch()} /> : <Skeleton lines={6} />}
      </Page>
    );
  }
  const quiet = data.today.calls === 0 && traffic.data?.minutes.every((minute) => minute.calls === 0);
  return (
    <Page title="Overview" description={<span title={`replica ${data.replica}`}>Up for <Since at={data.since} />, catalog version {count(data.generation)}</span>}>
      <Numbers data={data} />
      <Card title="Calls per minute" description="Last hour">
        <TrafficChart traffic={traffic.data} error={traffic.error} retry={() => void traffic.refetch()} quiet={quiet === true} />
      </Card>
      <div className="grid-2">
        <Attention data={data} />
        <Card title="Most called today">
          <TopTools data={data} />
        </Card>
      </div>
    </Page>
  );
}

function Numbers({ data }: { data: OverviewData }) {
  const { servers, today } = data;
  const silent = data.recordError ?? (data.store.kind === "none" ? "no store" : undefined);
  const all = servers.up + servers.down + servers.starting;
  const notUp = [servers.down > 0 && `${servers.down} down`, servers.starting > 0 && `${servers.starting} starting`].filter(Boolean).join(", ");
  return (
    <div className="grid-stats">
      <Link to="/catalog" className="Overview-stat">
        <Stat label="Tools" value={count(data.tools)} note={`at ${plural(data.gates, "gate")}`} />
      </Link>
      <Link to="/servers" className="Overview-stat">
        <Stat label="Servers up" value={`${count(servers.up)} of ${count(all)}`} note={notUp || (all > 0 ? "all up" : "none configured")} />
      </Link>
      <Link to="/calls" search={{ since: midnight() }} className="Overview-stat">
        <Stat label="Calls today" value={silent ? "–" : count(today.calls)} note={silent ?? "since midnight UTC"} />
      </Link>
      <Link to="/calls" search={{ failed: "true", since: midnight() }} className="Overview-stat">
        <Stat label="Failed today" value={silent ? "–" : count(today.errors)} note={silent ?? `${percent(today.errors, today.calls)} of calls`} />
      </Link>
      <Link to="/spend" search={{ since: "today" }} className="Overview-stat">
        <Stat label="Spend today" value={silent ? "–" : money(today.usd)} note={silent ?? "charged to accounts"} />
      </Link>
    </div>
  );
}

/** The start of the current day in UTC. */
function midnight(): string {
  return `${new Date().toISOString().slice(0, 10)}T00:00:00Z`;
}

type TrafficChartProps = { traffic: Traffic | undefined; error: unknown; retry: () => void; quiet: boolean };

function TrafficChart({ traffic, error, retry, quiet }: TrafficChartProps) {
  if (error instanceof ApiError && error.status === 404) {
    return <p className="faint">Calls are not recorded because no store is configured. The Calls page shows live calls only.</p>;
  }
  if (!traffic) return error ? <ErrorState error={error} onRetry={retry} /> : <Skeleton height={200} />;
  if (quiet) return <FirstSteps />;
  const points = traffic.minutes.map(({ at, calls, errors }) => ({ key: at, label: clock(at), title: clock(at), ok: calls - errors, errors }));
  return <CallBars label="Calls per minute in the last hour" points={points} />;
}

function TopTools({ data }: { data: OverviewData }) {
  if (data.top.length === 0) return <p className="faint">No calls today.</p>;
  const bars = data.top.map((tool) => ({
    key: `${tool.server ?? "-"}/${tool.tool}`,
    name: tool.tool,
    ...(tool.server !== undefined && { prefix: tool.server }),
    value: tool.calls,
    bad: tool.errors,
    text: (
      <span title={`${plural(tool.calls, "call")}, ${count(tool.errors)} failed, ${money(tool.usd)}`}>
        {shortCount(tool.calls)}
        {tool.errors > 0 && <span className="bad"> · {shortCount(tool.errors)} failed</span>}
      </span>
    ),
    link: { to: "/tools/$source/$name", params: { source: tool.server ?? "-", name: tool.tool } } as const,
  }));
  return <HBars label="Most called tools today" bars={bars} />;
}
