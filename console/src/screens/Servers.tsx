import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Server as ServerIcon } from "lucide-react";
import { useMemo } from "react";
import { queries } from "../api/queries";
import type { ServerItem } from "../api/types";
import { Badge, StateStatus } from "../components/Badge";
import { Button } from "../components/Button";
import { Card } from "../components/Card";
import { Code } from "../components/Code";
import { TextField } from "../components/Field";
import { Page } from "../components/Page";
import { EmptyState } from "../components/States";
import { type Column, Table } from "../components/Table";
import { Time } from "../components/Time";
import { count, plural } from "../format";
import { visible } from "../format/visible";
import { useMayChange } from "../session";
import { byNeed, inView, isView, matches, type View, views } from "./server/order";
import { Retry } from "./server/Retry";
import "./Servers.css";

/** The MCP servers behind the yard: which are up, and where a person is needed. */
export default function Servers() {
  const search = useSearch({ from: "/servers" });
  const navigate = useNavigate({ from: "/servers" });
  const { data, error, refetch } = useQuery(queries.servers());
  const mayChange = useMayChange();
  const columns = useMemo(() => columnsOf(mayChange), [mayChange]);
  const view = isView(search.state) ? search.state : "all";
  const text = search.q ?? "";
  const found = useMemo(() => data && byNeed(data.servers.filter((server) => matches(server, text))), [data, text]);
  const change = (next: { q?: string; state?: string }) => void navigate({ search: (old) => ({ ...old, ...next }), replace: true });
  return (
    <Page title="Servers" description="MCP servers whose tools this yard offers. What needs a person comes first.">
      {(!data || data.servers.length > 0) && (
        <div className="row-wrap">
          <div className="Servers-search">
            <TextField label="Find a server" labelHidden type="search" placeholder="Find by id, target or error" value={text} onChange={(q) => change({ q: q || undefined })} />
          </div>
          <ViewChoice servers={found} view={view} onChange={(state) => change({ state: state === "all" ? undefined : state })} />
        </div>
      )}
      <Card flush>
        <Table
          label="Servers"
          columns={columns}
          rows={found?.filter((server) => inView(server, view))}
          rowKey={(server) => server.id}
          rowLink={(server) => ({ to: "/servers/$id", params: { id: server.id } })}
          error={error}
          onRetry={() => void refetch()}
          empty={data?.servers.length === 0 ? <NoServers /> : <EmptyState icon={<ServerIcon />} title="No server is like that" action={<Button onClick={() => change({ q: undefined, state: undefined })}>Show all</Button>} />}
          minWidth={920}
        />
      </Card>
    </Page>
  );
}

const viewWords: Record<View, string> = { all: "All", up: "Up", starting: "Starting", down: "Down", waiting: "Needs approval" };

function ViewChoice({ servers, view, onChange }: { servers: ServerItem[] | undefined; view: View; onChange: (view: View) => void }) {
  return (
    <div className="Servers-views" role="group" aria-label="Which servers">
      {views.map((each) => (
        <button key={each} type="button" className="Servers-view" aria-pressed={each === view} onClick={() => onChange(each)}>
          {viewWords[each]}
          {servers && <span className="Servers-count">{count(servers.filter((server) => inView(server, each)).length)}</span>}
        </button>
      ))}
    </div>
  );
}

function columnsOf(mayChange: boolean): Column<ServerItem>[] {
  const columns: Column<ServerItem>[] = [
    { id: "id", header: "Server", value: (server) => server.id, cell: (server) => <Name server={server} /> },
    { id: "state", header: "State", width: "26%", value: (server) => server.state, cell: (server) => <State server={server} /> },
    { id: "waiting", header: "Approval", width: "108px", value: (server) => server.waiting, cell: (server) => <Waiting server={server} /> },
    { id: "protocol", header: "Protocol", width: "104px", wideOnly: true, value: (server) => server.protocol, cell: ({ protocol }) => protocol ?? <span className="faint">—</span> },
    { id: "tools", header: "Tools", width: "84px", align: "right", value: (server) => server.tools, cell: (server) => count(server.tools) },
    { id: "restarts", header: "Restarts", width: "104px", align: "right", value: (server) => server.restarts, cell: ({ restarts }) => <Few n={restarts} tone="warn" /> },
    { id: "problems", header: "Problems", width: "112px", align: "right", value: (server) => server.problems, cell: ({ problems }) => <Few n={problems} tone="bad" /> },
  ];
  if (mayChange) {
    columns.push({ id: "act", header: "", width: "164px", align: "right", cell: (server) => server.state === "down" && <Retry id={server.id} size="s" /> });
  }
  return columns;
}

function Name({ server }: { server: ServerItem }) {
  return (
    <span className="Servers-two">
      <span className="row">
        <span className="cut" title={server.id}>{server.id}</span>
        {server.required && <Badge title="The yard is ready only when this server is up.">required</Badge>}
      </span>
      <span className="Servers-under cut" title={`${server.transport} · ${server.target}`}>
        {server.transport} · <span className="mono">{visible(shortTarget(server))}</span>
      </span>
    </span>
  );
}

/** A command without the folders of its program; the title has all of it. */
function shortTarget({ transport, target }: ServerItem): string {
  return transport === "stdio" ? target.replace(/^\S*\//, "") : target;
}

function State({ server }: { server: ServerItem }) {
  return (
    <span className="Servers-two Servers-state">
      <span className="row">
        <StateStatus state={server.state} />
        <span className="faint small">· <Time at={server.since} /></span>
      </span>
      {server.state !== "up" && server.error && <span className="Servers-under Servers-error cut" title={server.error}>{visible(server.error)}</span>}
    </span>
  );
}

function Waiting({ server }: { server: ServerItem }) {
  if (server.waiting === 0) return <span className="faint" title={server.rejected ? `${plural(server.rejected, "definition")} rejected` : undefined}>—</span>;
  return (
    <Link to="/servers/$id" params={{ id: server.id }} search={{ tab: "pending" }} className="Servers-waits">
      <Badge tone="warn">{count(server.waiting)} {server.waiting === 1 ? "waits" : "wait"}</Badge>
      <span className="unseen"> for approval at {server.id}</span>
    </Link>
  );
}

function Few({ n, tone }: { n: number; tone: "warn" | "bad" }) {
  return <span className={n === 0 ? "faint" : tone}>{count(n)}</span>;
}

const snippet = `servers:
  files:
    command: npx
    args: ["-y", "@modelcontextprotocol/server-filesystem", "/srv/docs"]
  tracker:
    url: https://mcp.example.com/mcp
    auth: {type: bearer, secretRef: tracker}
secrets:
  tracker: env:TRACKER_TOKEN`;

function NoServers() {
  return (
    <div className="Servers-none">
      <div className="stack-s">
        <h2>No server yet</h2>
        <p className="soft">Name one under <code>servers</code> in <code>toolyard.yaml</code>: a program, or an address. The yard takes it over while it runs, and its tools stand beside yours.</p>
        <p className="soft">Your agents may know some already. This finds them in the files of Claude, Cursor, VS Code and others, and adds them without their secrets:</p>
        <Code text="toolyard import --write" label="Command that imports servers" />
      </div>
      <Code text={snippet} label="Servers in toolyard.yaml" />
    </div>
  );
}
