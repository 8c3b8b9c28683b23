import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { CircleCheck, Plug } from "lucide-react";
import { useEffect, useMemo, useState } from "react";
import { disconnect } from "../api/actions";
import { completeAuthorization, hasAuthorizationResponse } from "../api/authorization";
import { ApiError } from "../api/client";
import { queries } from "../api/queries";
import type { Connection } from "../api/types";
import { Status } from "../components/Badge";
import { Button } from "../components/Button";
import { Card } from "../components/Card";
import { Confirm } from "../components/Dialog";
import { Page } from "../components/Page";
import { EmptyState, ErrorNote } from "../components/States";
import { type Column, Table } from "../components/Table";
import { Time } from "../components/Time";
import { toast } from "../components/Toast";
import { visible } from "../format/visible";
import { useMe } from "../session";
import "./Connections.css";

/** The signed-in caller's connections to servers that are called on the caller's behalf. */
export default function Connections() {
  const me = useMe();
  const { data, error, refetch } = useQuery(queries.connections());
  const [ending, setEnding] = useState<Connection>();
  const columns = useMemo(() => columnsOf(setEnding), []);
  if (error instanceof ApiError && error.status === 404) return <Page title="Connections"><Card><NoStore /></Card></Page>;
  return (
    <Page title="Connections" description={<>Servers that are called with your own account on the server. Only calls by <strong className="wrap-anywhere">{visible(me?.caller ?? "")}</strong> use these connections.</>}>
      {hasAuthorizationResponse() && <Result />}
      <Card flush>
        <Table label="Connections" columns={columns} rows={data?.connections} rowKey={({ server }) => server} error={error} onRetry={() => void refetch()} empty={<NoServers />} />
      </Card>
      {ending && <Disconnect connection={ending} onClose={() => setEnding(undefined)} />}
    </Page>
  );
}

/** The outcome of the sign-in that the user returns from. */
function Result() {
  const client = useQueryClient();
  const { data, error } = useQuery({ queryKey: ["connections", "response"], queryFn: completeAuthorization, staleTime: Infinity, retry: false });
  useEffect(() => {
    if (data) void client.invalidateQueries({ queryKey: ["connections", "list"] });
  }, [client, data]);
  if (error) return <ErrorNote error={error} />;
  return (
    <p className="Connections-result" role="status">
      {data ? <><CircleCheck aria-hidden="true" /><span><strong>Connected to {visible(data.server)}.</strong> Close this page and return to your client.</span></> : "Connecting …"}
    </p>
  );
}

const tones = { active: "good", stale: "warn", none: "neutral" } as const;
const words = { active: "Connected", stale: "Sign in again", none: "Not connected" } as const;

function columnsOf(end: (connection: Connection) => void): Column<Connection>[] {
  return [
    { id: "server", header: "Server", min: 104, grow: 2, cell: ({ server }) => <span className="cut strong" title={server}>{server}</span> },
    { id: "state", header: "State", min: 116, cell: ({ state }) => <Status tone={tones[state]}>{words[state]}</Status> },
    { id: "issuer", header: "Signed in at", min: 140, grow: 2, drop: 3, cell: ({ issuer, key }) => (key ? <span className="faint">own key</span> : <span className="cut" title={issuer}>{hostOf(issuer)}</span>) },
    { id: "scopes", header: "Scopes", min: 120, grow: 2, drop: 4, cell: ({ scopes = [] }) => <span className="cut" title={scopes.join(" ")}>{visible(scopes.join(" "))}</span> },
    { id: "since", header: "Since", min: 96, drop: 2, align: "right", cell: ({ since }) => since && <Time at={since} /> },
    { id: "expires", header: "Expires", min: 136, drop: 1, align: "right", cell: (connection) => <Expires of={connection} /> },
    { id: "change", header: "", min: 236, align: "right", cell: (connection) => <Actions of={connection} end={end} /> },
  ];
}

const hostOf = (address = "") => (URL.canParse(address) ? new URL(address).host : address);

function Expires({ of: { state, expires, renewed } }: { of: Connection }) {
  if (state !== "active") return null;
  if (renewed) return <span className="faint" title="The access token is renewed automatically.">renewed</span>;
  return expires ? <Time at={expires} /> : <span className="faint">unknown</span>;
}

function Actions({ of: connection, end }: { of: Connection; end: (connection: Connection) => void }) {
  const { server, state } = connection;
  const action = state === "none" ? "Connect" : "Reconnect";
  return (
    <span className="Connections-actions">
      <Link to="/connections/$server" params={{ server }} className={`Button Button-s ${state === "active" ? "Button-plain" : "Button-primary"}`} aria-label={`${action} ${server}`}>{action}</Link>
      {state !== "none" && <Button size="s" variant="danger" onClick={() => end(connection)} aria-label={`Disconnect ${server}`}>Disconnect</Button>}
    </span>
  );
}

function Disconnect({ connection: { server }, onClose }: { connection: Connection; onClose: () => void }) {
  const client = useQueryClient();
  const end = async () => {
    await disconnect(server);
    await client.invalidateQueries({ queryKey: ["connections"] });
    toast.good(`Disconnected from ${server}.`);
  };
  return (
    <Confirm open onClose={onClose} title={`Disconnect from ${server}?`} action="Disconnect" danger onConfirm={end}>
      <p>The stored credentials are deleted, and revoked at the server if it supports revocation. The next call to one of its tools will ask you to connect again.</p>
    </Confirm>
  );
}

function NoServers() {
  return <EmptyState icon={<Plug />} title="No server requires a connection">Servers with <code>auth: {"{type: person}"}</code> in the configuration are called on behalf of each caller and appear here.</EmptyState>;
}

function NoStore() {
  return <EmptyState icon={<Plug />} title="No store configured">Connections require a store. Add one to the configuration.</EmptyState>;
}
