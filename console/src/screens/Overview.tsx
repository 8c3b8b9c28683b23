import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ApiError } from "../api/client";
import { queries } from "../api/queries";
import type { Overview as OverviewData, Traffic } from "../api/types";
import { Card, Stat } from "../components/Card";
import { Bars } from "../components/charts/Bars";
import { HBars } from "../components/charts/HBars";
import { Page } from "../components/Page";
import { ErrorState, Skeleton } from "../components/States";
import { Time } from "../components/Time";
import { count, money, percent, plural, shortCount } from "../format";
import { Attention } from "./OverviewAttention";
import { FirstSteps } from "./OverviewFirstSteps";
import "./Overview.css";

/** The yard at a glance: what it offers, what happens, and what needs a person. */
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
    <Page title="Overview" description={<span title={`replica ${data.replica}`}>Started <Time at={data.since} />, generation {count(data.generation)} of its tools</span>}>
      <Numbers data={data} />
      <Card title="Calls per minute" description="the last hour">
        <TrafficChart traffic={traffic.data} error={traffic.error} retry={() => void traffic.refetch()} quiet={quiet === true} />
      </Card>
      <div className="grid-2">
        <Attention data={data} />
        <Card title="Most used today">
          <TopTools data={data} />
        </Card>
      </div>
    </Page>
  );
}

function Numbers({ data }: { data: OverviewData }) {
  const { servers, today } = data;
  const silent = data.recordError ?? (data.store.kind === "none" ? "this yard keeps no record" : undefined);
  const all = servers.up + servers.down + servers.starting;
  const notUp = [servers.down > 0 && `${servers.down} down`, servers.starting > 0 && `${servers.starting} starting`].filter(Boolean).join(", ");
  return (
    <div className="grid-stats">
      <Link to="/catalog" className="Overview-stat">
        <Stat label="Tools" value={count(data.tools)} note={`through ${plural(data.gates, "gate")}`} />
      </Link>
      <Link to="/servers" className="Overview-stat">
        <Stat label="Servers up" value={`${count(servers.up)} of ${count(all)}`} note={notUp || (all > 0 ? "all of them" : "none configured")} />
      </Link>
      <Link to="/calls" className="Overview-stat">
        <Stat label="Calls today" value={silent ? "–" : count(today.calls)} note={silent ?? "all gates"} />
      </Link>
      <Link to="/calls" search={{ failed: "true" }} className="Overview-stat">
        <Stat label="Failed today" value={silent ? "–" : count(today.errors)} note={silent ?? `${percent(today.errors, today.calls)} of calls`} />
      </Link>
      <Link to="/spend" className="Overview-stat">
        <Stat label="Spend today" value={silent ? "–" : money(today.usd)} note={silent ?? "charged to accounts"} />
      </Link>
    </div>
  );
}

type TrafficChartProps = { traffic: Traffic | undefined; error: unknown; retry: () => void; quiet: boolean };

function TrafficChart({ traffic, error, retry, quiet }: TrafficChartProps) {
  if (error instanceof ApiError && error.status === 404) {
    return <p className="faint">This yard keeps no record of calls: its configuration names no store. The page Calls shows those that happen now.</p>;
  }
  if (!traffic) return error ? <ErrorState error={error} onRetry={retry} /> : <Skeleton height={200} />;
  if (quiet) return <FirstSteps />;
  const points = traffic.minutes.map(({ at, calls, errors }) => ({ at, ok: calls - errors, errors }));
  return <Bars label="Calls per minute in the last hour" points={points} />;
}

function TopTools({ data }: { data: OverviewData }) {
  if (data.top.length === 0) return <p className="faint">No tool was called today.</p>;
  const bars = data.top.map((tool) => ({
    key: `${tool.server ?? "-"}/${tool.tool}`,
    name: tool.tool,
    ...(tool.server !== undefined && { prefix: tool.server }),
    value: tool.calls,
    bad: tool.errors,
    text: (
      <span title={`${count(tool.calls)} calls, ${count(tool.errors)} failed, ${money(tool.usd)}`}>
        {shortCount(tool.calls)}
        {tool.errors > 0 && <span className="bad"> · {shortCount(tool.errors)} failed</span>}
      </span>
    ),
    link: { to: "/tools/$source/$name", params: { source: tool.server ?? "-", name: tool.tool } } as const,
  }));
  return <HBars label="The most used tools of today" bars={bars} />;
}
