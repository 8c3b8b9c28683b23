import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Server as ServerIcon } from "lucide-react";
import { useMemo } from "react";
import { queries } from "../api/queries";
import type { ServerItem } from "../api/types";
import { Badge } from "../components/Badge";
import { Button } from "../components/Button";
import { Card } from "../components/Card";
import { Code } from "../components/Code";
import { TextField } from "../components/Field";
import { Segments } from "../components/Segments";
import { Page } from "../components/Page";
import { EmptyState } from "../components/States";
import { type Column, Table } from "../components/Table";
import { count, plural } from "../format";
import { visible } from "../format/visible";
import { useCanChange } from "../session";
import { byUrgency, inView, isView, matches, type View, views } from "./server/order";
import { Retry } from "./server/Retry";
import { ServerState } from "./server/ServerState";
import "./Servers.css";

/** The MCP servers and their states. */
export default function Servers() {
  const search = useSearch({ from: "/servers" });
  const navigate = useNavigate({ from: "/servers" });
  const { data, error, refetch } = useQuery(queries.servers());
  const mayChange = useCanChange();
  const columns = useMemo(() => columnsOf(mayChange), [mayChange]);
  const view = isView(search.state) ? search.state : "all";
  const text = search.q ?? "";
  const found = useMemo(() => data && byUrgency(data.servers.filter((server) => matches(server, text))), [data, text]);
  const change = (next: { q?: string; state?: string }) => void navigate({ search: (old) => ({ ...old, ...next }), replace: "q" in next && !("state" in next) });
  return (
    <Page title="Servers" description="MCP servers that provide tools to this yard. Servers that need attention come first.">
      {(!data || data.servers.length > 0) && (
        <div className="row-wrap">
          <div className="Servers-search">
            <TextField label="Find a server" labelHidden type="search" placeholder="Find by ID, target or error" value={text} onChange={(q) => change({ q: q || undefined })} />
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
          empty={data?.servers.length === 0 ? <NoServers /> : <EmptyState icon={<ServerIcon />} title="No matching servers" action={<Button onClick={() => change({ q: undefined, state: undefined })}>Show all</Button>} />}
        />
      </Card>
    </Page>
  );
}

const viewLabels: Record<View, string> = { all: "All", up: "Up", starting: "Starting", down: "Down", waiting: "Needs approval" };

function ViewChoice({ servers, view, onChange }: { servers: ServerItem[] | undefined; view: View; onChange: (view: View) => void }) {
  return (
    <Segments label="State" value={view} onChange={onChange} items={views.map((each) => ({ value: each, label: viewLabels[each], count: servers && count(servers.filter((server) => inView(server, each)).length) }))} />
  );
}

function columnsOf(mayChange: boolean): Column<ServerItem>[] {
  const columns: Column<ServerItem>[] = [
    { id: "id", header: "Server", min: 180, grow: 3, value: (server) => server.id, cell: (server) => <Name server={server} /> },
    { id: "state", header: "State", min: 160, grow: 2, value: (server) => server.state, cell: (server) => <State server={server} /> },
    { id: "waiting", header: "Approval", min: 112, value: (server) => server.waiting, cell: (server) => <Waiting server={server} /> },
    { id: "protocol", header: "Protocol", min: 104, drop: 3, wideOnly: true, value: (server) => server.protocol, cell: ({ protocol }) => protocol ?? <span className="faint">—</span> },
    { id: "tools", header: "Tools", min: 76, align: "right", value: (server) => server.tools, cell: (server) => count(server.tools) },
    { id: "restarts", header: "Restarts", min: 96, drop: 2, align: "right", value: (server) => server.restarts, cell: ({ restarts }) => <CountBadge n={restarts} tone="warn" /> },
    { id: "problems", header: "Problems", min: 104, drop: 1, align: "right", value: (server) => server.problems, cell: ({ problems }) => <CountBadge n={problems} tone="bad" /> },
  ];
  if (mayChange) {
    columns.push({ id: "act", header: "", min: 116, align: "right", cell: (server) => server.state === "down" && <Retry id={server.id} size="s" /> });
  }
  return columns;
}

function Name({ server }: { server: ServerItem }) {
  return (
    <span className="Servers-two">
      <span className="row">
        <span className="cut" title={server.id}>{server.id}</span>
        {server.required && <Badge title="The yard is not ready while this server is down.">required</Badge>}
      </span>
      <span className="Servers-under cut" title={`${server.transport} · ${server.target}`}>
        {server.transport} · <span className="mono">{visible(shortTarget(server))}</span>
      </span>
    </span>
  );
}

/** The target without its command's directories. The tooltip shows the full target. */
function shortTarget({ transport, target }: ServerItem): string {
  return transport === "stdio" ? target.replace(/^\S*\//, "") : target;
}

function State({ server }: { server: ServerItem }) {
  return (
    <span className="Servers-two Servers-state">
      <span className="row">
        <ServerState server={server} />
      </span>
      {server.state !== "up" && server.error && <span className="Servers-under Servers-error cut" title={server.error}>{visible(server.error)}</span>}
    </span>
  );
}

function Waiting({ server }: { server: ServerItem }) {
  if (server.waiting === 0) return <span className="faint" title={server.rejected ? `${plural(server.rejected, "definition")} rejected` : undefined}>—</span>;
  return (
    <Link to="/servers/$id" params={{ id: server.id }} search={{ tab: "pending" }} className="Servers-waits">
      <Badge tone="warn">{count(server.waiting)} pending</Badge>
      <span className="unseen"> approval at {server.id}</span>
    </Link>
  );
}

function CountBadge({ n, tone }: { n: number; tone: "warn" | "bad" }) {
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
        <h2>No servers yet</h2>
        <p className="soft">Add one under <code>servers</code> in <code>toolyard.yaml</code>: a command or a URL. The yard connects without a restart.</p>
        <p className="soft">Or import servers from the configuration of Claude, Cursor, VS Code and other clients. Secrets are not copied:</p>
        <Code text="toolyard import --write" label="Command that imports servers" />
      </div>
      <Code text={snippet} label="Servers in toolyard.yaml" />
    </div>
  );
}
