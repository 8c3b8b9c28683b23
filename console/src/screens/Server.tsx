import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { CircleAlert, FileDiff, Pin } from "lucide-react";
import { queries } from "../api/queries";
import type { ServerDetail, ToolHash } from "../api/types";
import { Badge, StateStatus } from "../components/Badge";
import { Card } from "../components/Card";
import { Page } from "../components/Page";
import { ProblemCard } from "../components/ProblemCard";
import { EmptyState, ErrorState, Skeleton } from "../components/States";
import { type Column, Table } from "../components/Table";
import { Tabs } from "../components/Tabs";
import { plural } from "../format";
import { visible } from "../format/visible";
import { useCanChange } from "../session";
import { Approvals } from "./server/Approvals";
import { Connected } from "./server/Connected";
import { Hash } from "./server/Hash";
import { Retry } from "./server/Retry";
import { ServerFacts } from "./server/ServerFacts";
import { ServerTools } from "./server/ServerTools";
import { Stderr } from "./server/Stderr";
import { TimelineView } from "./server/TimelineView";
import "./Server.css";

/** One MCP server: state, tools and pending definitions. */
export default function Server() {
  const { id } = useParams({ from: "/servers/$id" });
  const { data, error, refetch, dataUpdatedAt } = useQuery(queries.server(id));
  const mayChange = useCanChange();
  return (
    <Page
      title={id}
      above={<Link to="/servers">Servers</Link>}
      beside={data && <><StateStatus state={data.state} />{data.required && <Badge>required</Badge>}</>}
      actions={(data?.state === "down" || data?.state === "up") && mayChange && <Retry id={id} up={data.state === "up"} />}
    >
      {data ? <Loaded server={data} now={dataUpdatedAt} /> : error ? <ErrorState error={error} onRetry={() => void refetch()} /> : <Skeleton lines={8} />}
    </Page>
  );
}

function Loaded({ server, now }: { server: ServerDetail; now: number }) {
  const { tab = "overview", tool } = useSearch({ from: "/servers/$id" });
  const navigate = useNavigate({ from: "/servers/$id" });
  const tabs = [
    { id: "overview", label: "Overview", content: <Overview server={server} now={now} /> },
    { id: "pending", label: "Approval", count: server.waiting, content: <Approvals server={server} tool={tool} /> },
    { id: "tools", label: "Tools", count: server.tools, content: <ServerTools server={server} /> },
    { id: "pins", label: "Pins", count: server.pins.length, content: <Pins server={server} /> },
    ...(server.people ? [{ id: "people", label: "Connections", content: <Connected server={server.id} /> }] : []),
    { id: "stderr", label: "Logs", content: <Stderr server={server} /> },
  ];
  return (
    <>
      {server.state !== "up" && server.error && <OutageBanner server={server} />}
      {server.waiting > 0 && tab !== "pending" && <PendingBanner server={server} />}
      <Tabs label="Server" tabs={tabs} value={tabs.some((each) => each.id === tab) ? tab : "overview"} onChange={(next) => void navigate({ search: { tab: next === "overview" ? undefined : next } })} />
    </>
  );
}

function OutageBanner({ server }: { server: ServerDetail }) {
  return (
    <div className="Server-banner Server-banner-bad">
      <CircleAlert aria-hidden="true" />
      <p className="grow wrap-anywhere"><strong>{server.state === "down" ? "Down" : "Not up yet"}.</strong> {visible(server.error ?? "")} <span className="Server-aside">Its tools stay listed; calls to them fail immediately.</span></p>
    </div>
  );
}

function PendingBanner({ server }: { server: ServerDetail }) {
  return (
    <div className="Server-banner Server-banner-warn">
      <FileDiff aria-hidden="true" />
      <p className="grow"><strong>{plural(server.waiting, "definition is", "definitions are")} pending approval.</strong> <span className="Server-aside">Agents cannot use a definition until you approve it.</span></p>
      <Link to="/servers/$id" params={{ id: server.id }} search={{ tab: "pending" }} className="Button Button-plain Button-s">Review</Link>
    </div>
  );
}

function Overview({ server, now }: { server: ServerDetail; now: number }) {
  const problems = server.problemList ?? [];
  return (
    <div className="stack">
      <div className="Server-columns">
        <Card title="Details"><ServerFacts server={server} /></Card>
        <Card title="History"><TimelineView events={server.events} restarts={server.restarts} now={now} /></Card>
      </div>
      {problems.length > 0 && (
        <Card title={plural(problems.length, "problem")} flush>
          {problems.map((problem, i) => <ProblemCard key={i} problem={problem} />)}
        </Card>
      )}
    </div>
  );
}

const pinColumns: Column<ToolHash>[] = [
  { id: "tool", header: "Definition", min: 180, grow: 1, value: (pin) => pin.tool, cell: (pin) => <span className="mono cut" title={visible(pin.tool)}>{visible(pin.tool)}</span> },
  { id: "hash", header: "SHA-256", min: 180, cell: (pin) => <Hash hash={pin.hash} /> },
];

function Pins({ server }: { server: ServerDetail }) {
  return (
    <Card title="Approved definitions" description="A definition with a different hash is withheld until it is approved." flush>
      <Table
        label={`Pins for ${server.id}`}
        columns={pinColumns}
        rows={server.pins}
        rowKey={(pin) => pin.tool}
        empty={<EmptyState icon={<Pin />} title="No pins">{server.pin === "off" ? "This server is configured with pin: off." : "No definition has been approved yet."}</EmptyState>}
      />
    </Card>
  );
}
