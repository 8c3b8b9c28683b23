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
import { useMayChange } from "../session";
import { Approvals } from "./server/Approvals";
import { Hash } from "./server/Hash";
import { Retry } from "./server/Retry";
import { ServerFacts } from "./server/ServerFacts";
import { ServerTools } from "./server/ServerTools";
import { Stderr } from "./server/Stderr";
import { TimelineView } from "./server/TimelineView";
import "./Server.css";

/** One MCP server: how it is, what it offers, and what of that waits for a person. */
export default function Server() {
  const { id } = useParams({ from: "/servers/$id" });
  const { data, error, refetch, dataUpdatedAt } = useQuery(queries.server(id));
  const mayChange = useMayChange();
  return (
    <Page
      title={id}
      above={<Link to="/servers">Servers</Link>}
      beside={data && <><StateStatus state={data.state} />{data.required && <Badge>required</Badge>}</>}
      actions={data?.state === "down" && mayChange && <Retry id={id} />}
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
    { id: "stderr", label: "Standard error", content: <Stderr server={server} /> },
  ];
  return (
    <>
      {server.state !== "up" && server.error && <Outage server={server} />}
      {server.waiting > 0 && tab !== "pending" && <Waits server={server} />}
      <Tabs label="Parts of the server" tabs={tabs} value={tabs.some((each) => each.id === tab) ? tab : "overview"} onChange={(next) => void navigate({ search: { tab: next === "overview" ? undefined : next }, replace: true })} />
    </>
  );
}

function Outage({ server }: { server: ServerDetail }) {
  return (
    <div className="Server-banner Server-banner-bad">
      <CircleAlert aria-hidden="true" />
      <p className="grow wrap-anywhere"><strong>{server.state === "down" ? "Down" : "Not up yet"}.</strong> {visible(server.error ?? "")} <span className="Server-aside">Its tools stay listed, and calls of them fail at once.</span></p>
    </div>
  );
}

function Waits({ server }: { server: ServerDetail }) {
  return (
    <div className="Server-banner Server-banner-warn">
      <FileDiff aria-hidden="true" />
      <p className="grow"><strong>{plural(server.waiting, "definition waits", "definitions wait")} for approval.</strong> <span className="Server-aside">Agents do not see them until then.</span></p>
      <Link to="/servers/$id" params={{ id: server.id }} search={{ tab: "pending" }} className="Button Button-plain Button-s">Look at {server.waiting === 1 ? "it" : "them"}</Link>
    </div>
  );
}

function Overview({ server, now }: { server: ServerDetail; now: number }) {
  const problems = server.problemList ?? [];
  return (
    <div className="stack">
      <div className="Server-columns">
        <Card title="Facts"><ServerFacts server={server} /></Card>
        <Card title="What happened"><TimelineView events={server.events} restarts={server.restarts} now={now} /></Card>
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
  { id: "tool", header: "Definition", value: (pin) => pin.tool, cell: (pin) => <span className="mono cut" title={visible(pin.tool)}>{visible(pin.tool)}</span> },
  { id: "hash", header: "SHA-256", width: "180px", cell: (pin) => <Hash hash={pin.hash} /> },
];

function Pins({ server }: { server: ServerDetail }) {
  return (
    <Card title="Approved definitions" description="A definition that hashes to anything else is withheld until somebody approves it." flush>
      <Table
        label={`Pins of ${server.id}`}
        columns={pinColumns}
        rows={server.pins}
        rowKey={(pin) => pin.tool}
        empty={<EmptyState icon={<Pin />} title="Nothing is pinned">{server.pin === "off" ? "The configuration says pin: off for this server." : "Nothing that it offers was approved yet."}</EmptyState>}
      />
    </Card>
  );
}
