import { useQuery } from "@tanstack/react-query";
import { Plug } from "lucide-react";
import { queries } from "../../api/queries";
import type { ServerConnection } from "../../api/types";
import { Status } from "../../components/Badge";
import { Card } from "../../components/Card";
import { EmptyState } from "../../components/States";
import { type Column, Table } from "../../components/Table";
import { Time } from "../../components/Time";
import { visible } from "../../format/visible";

/** The callers who are connected to a server that is called on behalf of each caller. */
export function Connected({ server }: { server: string }) {
  const { data, error, refetch } = useQuery(queries.serverConnections(server));
  return (
    <Card title="Connected callers" description={data?.more ? "The newest connections. Keys and tokens are never shown." : "Each caller uses their own account on this server. Keys and tokens are never shown."} flush>
      <Table label={`Callers connected to ${server}`} columns={columns} rows={data?.connections} rowKey={({ account = "", caller }) => `${account} ${caller}`} error={error} onRetry={() => void refetch()} empty={<EmptyState icon={<Plug />} title="No callers are connected">Callers connect under Connections, or when they call one of this server's tools.</EmptyState>} />
    </Card>
  );
}

const columns: Column<ServerConnection>[] = [
  { id: "caller", header: "Caller", min: 140, grow: 3, cell: ({ caller }) => <span className="cut strong" title={caller}>{visible(caller)}</span> },
  { id: "account", header: "Account", min: 100, grow: 1, drop: 2, cell: ({ account }) => <span className="cut" title={account}>{visible(account ?? "")}</span> },
  { id: "state", header: "State", min: 116, cell: ({ state }) => (state === "active" ? <Status tone="good">Connected</Status> : <Status tone="warn">Must sign in</Status>) },
  { id: "scopes", header: "Rights", min: 120, grow: 2, drop: 3, cell: ({ scopes = [] }) => <span className="cut" title={scopes.join(" ")}>{visible(scopes.join(" "))}</span> },
  { id: "since", header: "Since", min: 100, drop: 1, align: "right", cell: ({ since }) => <Time at={since} /> },
];
