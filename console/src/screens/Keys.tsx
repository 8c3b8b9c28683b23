import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { KeyRound, Plus } from "lucide-react";
import { useMemo, useState } from "react";
import { revokeKey } from "../api/actions";
import { ApiError } from "../api/client";
import { queries } from "../api/queries";
import type { Key, KeyFilter } from "../api/types";
import { Badge, StateStatus } from "../components/Badge";
import { Button } from "../components/Button";
import { Card } from "../components/Card";
import { Code } from "../components/Code";
import { Confirm } from "../components/Dialog";
import { TextField } from "../components/Field";
import { Page } from "../components/Page";
import { Select } from "../components/Select";
import { EmptyState } from "../components/States";
import { type Column, Table } from "../components/Table";
import { Time } from "../components/Time";
import { toast } from "../components/Toast";
import { absolute } from "../format";
import { visible } from "../format/visible";
import { oneOf } from "../search";
import { useCanChange } from "../session";
import { useDelayed } from "../useDelayed";
import { CreateKey } from "./keys/CreateKey";
import { describeScopes } from "./keys/scopes";
import "./Keys.css";

const states: { value: NonNullable<KeyFilter["state"]> | ""; label: string }[] = [
  { value: "", label: "All states" },
  { value: "active", label: "Active" },
  { value: "expired", label: "Expired" },
  { value: "revoked", label: "Revoked" },
];

/** API keys with their callers, scopes and states. */
export default function Keys() {
  const search = useSearch({ from: "/keys" });
  const { q = "" } = search;
  const state = oneOf(["active", "expired", "revoked"], search.state);
  const navigate = useNavigate({ from: "/keys" });
  const mayChange = useCanChange();
  const [making, setMaking] = useState(false);
  const [revoking, setRevoking] = useState<Key>();
  const typed = useDelayed(q, 200);
  const { data, error, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery(queries.keys({ q: typed || undefined, state, limit: 200 }));
  const rows = useMemo(() => data?.pages.flatMap((page) => page.keys), [data]);
  const more = hasNextPage ? { load: () => void fetchNextPage(), loading: isFetchingNextPage } : undefined;
  const columns = useMemo(() => columnsOf(mayChange ? setRevoking : undefined), [mayChange]);
  if (error instanceof ApiError && error.status === 404) return <Page title="Keys"><NoStore /></Page>;
  const narrow = (more: { q?: string | undefined; state?: string | undefined }) => void navigate({ search: (old) => ({ ...old, ...more }), replace: "q" in more });
  const make = mayChange && <Button variant="primary" icon={<Plus />} onClick={() => setMaking(true)}>Create key</Button>;
  return (
    <Page title="Keys" description="API keys identify callers. Only a hash of each key is stored; the token is shown once, when the key is created." actions={make}>
      <div className="Keys-filters">
        <TextField label="Filter by name, caller or account" labelHidden type="search" placeholder="Filter by name, caller or account" value={q} onChange={(text) => narrow({ q: text || undefined })} maxLength={200} />
        <Select label="State" labelHidden value={state ?? ""} items={states} onChange={(next) => narrow({ state: next || undefined })} />
      </div>
      <Card flush>
        <Table label="Keys" columns={columns} rows={rows} rowKey={(key) => key.prefix} error={error} onRetry={() => void refetch()} empty={<NoKeys filtered={q !== "" || state !== undefined} />} {...(more && { more })} />
      </Card>
      {making && <CreateKey onClose={() => setMaking(false)} />}
      <Revoke apiKey={revoking} onClose={() => setRevoking(undefined)} />
    </Page>
  );
}

function columnsOf(revoke: ((key: Key) => void) | undefined): Column<Key>[] {
  const columns: Column<Key>[] = [
    { id: "name", header: "Name", min: 190, grow: 3, cell: (key) => <Name of={key} /> },
    { id: "caller", header: "Caller", min: 120, grow: 1, drop: 1, cell: (key) => <span className="cut" title={key.caller}>{key.caller}</span> },
    { id: "account", header: "Account", min: 120, grow: 1, drop: 3, cell: (key) => <span className="cut" title={key.account}>{key.account}</span> },
    { id: "scopes", header: "Scopes", min: 170, grow: 2, drop: 2, cell: (key) => <Scopes scopes={key.scopes} /> },
    { id: "state", header: "State", min: 96, cell: (key) => <StateStatus state={key.state} title={key.revoked ? `Revoked ${absolute(key.revoked)}` : undefined} /> },
    { id: "created", header: "Created", min: 96, drop: 5, align: "right", cell: (key) => <Time at={key.created} /> },
    { id: "expires", header: "Expires", min: 108, drop: 4, align: "right", cell: (key) => (key.expires ? <Time at={key.expires} /> : <span className="faint">never</span>) },
  ];
  if (revoke) {
    columns.push({ id: "revoke", header: "", min: 96, align: "right", cell: (key) => key.state === "active" && <Button size="s" variant="danger" onClick={() => revoke(key)} aria-label={`Revoke ${key.name}`}>Revoke</Button> });
  }
  return columns;
}

function Name({ of: { name, prefix } }: { of: Key }) {
  return (
    <span className="Keys-name" title={name}>
      <span className="cut strong">{visible(name)}</span>
      <span className="mono faint" title="Public prefix of the key">{prefix}</span>
    </span>
  );
}

const tones = { operator: "accent", viewer: "info", write: "warn" } as const;

function Scopes({ scopes }: { scopes: string[] }) {
  const words = describeScopes(scopes).join(" ");
  if (scopes.length === 0) return <Badge title={words}>read-only</Badge>;
  return (
    <span className="Keys-scopes" title={words}>
      {scopes.map((scope) => <Badge key={scope} tone={tones[scope as keyof typeof tones] ?? "neutral"}>{scope}</Badge>)}
    </span>
  );
}

function Revoke({ apiKey: revoked, onClose }: { apiKey: Key | undefined; onClose: () => void }) {
  const client = useQueryClient();
  if (!revoked) return null;
  const revoke = async () => {
    await revokeKey(revoked.prefix);
    await client.invalidateQueries({ queryKey: ["keys"] });
    toast.good(`Revoked key ${revoked.name}.`);
  };
  return (
    <Confirm open onClose={onClose} title={`Revoke key ${revoked.name}?`} action="Revoke key" danger onConfirm={revoke}>
      <p>Requests by <strong className="wrap-anywhere">{revoked.caller}</strong> with <code>{revoked.prefix}</code> will be rejected within 30 seconds. Running calls finish.</p>
      <p className="soft">This cannot be undone.</p>
    </Confirm>
  );
}

function NoKeys({ filtered }: { filtered: boolean }) {
  if (filtered) return <EmptyState icon={<KeyRound />} title="No matching keys">Remove a filter to see more.</EmptyState>;
  return <EmptyState icon={<KeyRound />} title="No keys yet">Gates with <code>callers: keys</code> reject callers that do not send a key.</EmptyState>;
}

function NoStore() {
  return (
    <Card>
      <EmptyState icon={<KeyRound />} title="No store configured">
        Keys require a store. Add one to <code>toolyard.yaml</code> and restart:
        <div className="Keys-how"><Code text={"store: sqlite:toolyard.db   # or postgres://…\n\ngates:\n  default:\n    callers: keys"} label="A configuration with a store" /></div>
      </EmptyState>
    </Card>
  );
}
