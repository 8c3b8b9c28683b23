import { useQuery } from "@tanstack/react-query";
import { queries } from "../../api/queries";
import type { Issuer } from "../../api/types";
import { Status } from "../../components/Badge";
import { Card } from "../../components/Card";
import { type Column, Table } from "../../components/Table";
import { Time } from "../../components/Time";
import { plural } from "../../format";

/** The issuers, with the state of their keys on this replica. */
export function Issuers() {
  const { data, error, refetch } = useQuery(queries.issuers());
  return (
    <Card title="Issuers" flush>
      <Table label="Issuers" columns={columns} rows={data?.issuers} rowKey={({ name }) => name} error={error} onRetry={() => void refetch()} />
    </Card>
  );
}

const columns: Column<Issuer>[] = [
  { id: "name", header: "Name", min: 200, grow: 3, cell: ({ name, url }) => <span className="People-name" title={url}><span className="cut strong">{name}</span><span className="faint cut">{url}</span></span> },
  { id: "state", header: "Keys", min: 150, grow: 2, cell: (issuer) => <State of={issuer} /> },
  { id: "fetched", header: "Fetched", min: 100, drop: 1, align: "right", cell: ({ fetchedAt }) => (fetchedAt ? <Time at={fetchedAt} /> : <span className="faint">not yet</span>) },
  { id: "rules", header: "Access rules", min: 110, drop: 3, align: "right", cell: ({ rules }) => rules },
  { id: "signin", header: "Console sign-in", min: 240, grow: 3, drop: 2, cell: ({ redirectUri }) => (redirectUri ? <span className="wrap-anywhere mono small" title="The redirect URI to register with the issuer">{redirectUri}</span> : <span className="faint">not configured</span>) },
];

function State({ of: { keys, error, fetchedAt } }: { of: Issuer }) {
  if (error) return <Status tone={keys.length > 0 ? "warn" : "bad"} title={error}>{error}</Status>;
  if (!fetchedAt) return <Status tone="neutral" title="Keys are fetched when the first token or sign-in needs them.">Not used yet</Status>;
  return <Status tone="good" title={keys.join(", ")}>{plural(keys.length, "key")}</Status>;
}
