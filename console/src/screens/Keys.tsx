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
import { useMayChange } from "../session";
import { useDelayed } from "../useDelayed";
import { CreateKey } from "./keys/CreateKey";
import { scopeWords } from "./keys/scopes";
import "./Keys.css";

const states: { value: NonNullable<KeyFilter["state"]> | ""; label: string }[] = [
  { value: "", label: "All states" },
  { value: "active", label: "Active" },
  { value: "expired", label: "Expired" },
  { value: "revoked", label: "Revoked" },
];

/** Who may call, and see, with which key. */
export default function Keys() {
  const search = useSearch({ from: "/keys" });
  const { q = "" } = search;
  const state = oneOf(["active", "expired", "revoked"], search.state);
  const navigate = useNavigate({ from: "/keys" });
  const mayChange = useMayChange();
  const [making, setMaking] = useState(false);
  const [revoking, setRevoking] = useState<Key>();
  const typed = useDelayed(q, 200);
  const { data, error, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery(queries.keys({ q: typed || undefined, state, limit: 200 }));
  const rows = useMemo(() => data?.pages.flatMap((page) => page.keys), [data]);
  const more = hasNextPage ? { load: () => void fetchNextPage(), loading: isFetchingNextPage } : undefined;
  const columns = useMemo(() => columnsOf(mayChange ? setRevoking : undefined), [mayChange]);
  if (error instanceof ApiError && error.status === 404) return <Page title="Keys"><NoStore /></Page>;
  const narrow = (more: { q?: string | undefined; state?: string | undefined }) => void navigate({ search: (old) => ({ ...old, ...more }), replace: true });
  const make = mayChange && <Button variant="primary" icon={<Plus />} onClick={() => setMaking(true)}>Make a key</Button>;
  return (
    <Page title="Keys" description="Callers are known by their keys. Only a hash of a key is kept: its token is shown once." actions={make}>
      <div className="Keys-filters">
        <TextField label="Filter by name, caller or account" labelHidden type="search" placeholder="Filter by name, caller or account" value={q} onChange={(text) => narrow({ q: text || undefined })} maxLength={200} />
        <Select label="State" labelHidden value={state ?? ""} items={states} onChange={(next) => narrow({ state: next || undefined })} />
      </div>
      <Card flush>
        <Table label="Keys" columns={columns} rows={rows} rowKey={(key) => key.prefix} error={error} onRetry={() => void refetch()} empty={<Nothing filtered={q !== "" || state !== undefined} />} minWidth={1040} {...(more && { more })} />
      </Card>
      {making && <CreateKey onClose={() => setMaking(false)} />}
      <Revoke doomed={revoking} onClose={() => setRevoking(undefined)} />
    </Page>
  );
}

function columnsOf(revoke: ((key: Key) => void) | undefined): Column<Key>[] {
  const columns: Column<Key>[] = [
    { id: "name", header: "Name", cell: (key) => <Name of={key} /> },
    { id: "caller", header: "Caller", width: "13%", cell: (key) => <span className="cut" title={key.caller}>{key.caller}</span> },
    { id: "account", header: "Account", width: "12%", cell: (key) => <span className="cut" title={key.account}>{key.account}</span> },
    { id: "scopes", header: "Scopes", width: "20%", cell: (key) => <Scopes scopes={key.scopes} /> },
    { id: "state", header: "State", width: "100px", cell: (key) => <StateStatus state={key.state} title={key.revoked ? `Revoked ${absolute(key.revoked)}` : undefined} /> },
    { id: "created", header: "Made", width: "104px", align: "right", cell: (key) => <Time at={key.created} /> },
    { id: "expires", header: "Expires", width: "112px", align: "right", cell: (key) => (key.expires ? <Time at={key.expires} /> : <span className="faint">never</span>) },
  ];
  if (revoke) {
    columns.push({ id: "revoke", header: "", width: "92px", align: "right", cell: (key) => key.state === "active" && <Button size="s" variant="danger" onClick={() => revoke(key)} aria-label={`Revoke ${key.name}`}>Revoke</Button> });
  }
  return columns;
}

function Name({ of: { name, prefix } }: { of: Key }) {
  return (
    <span className="Keys-name" title={name}>
      <span className="cut strong">{visible(name)}</span>
      <span className="mono faint" title="How the key is known; no secret">{prefix}</span>
    </span>
  );
}

const tones = { operator: "accent", viewer: "info", write: "warn" } as const;

function Scopes({ scopes }: { scopes: string[] }) {
  const words = scopeWords(scopes).join(" ");
  if (scopes.length === 0) return <Badge title={words}>unrestricted</Badge>;
  return (
    <span className="Keys-scopes" title={words}>
      {scopes.map((scope) => <Badge key={scope} tone={tones[scope as keyof typeof tones] ?? "neutral"}>{scope}</Badge>)}
    </span>
  );
}

function Revoke({ doomed, onClose }: { doomed: Key | undefined; onClose: () => void }) {
  const client = useQueryClient();
  if (!doomed) return null;
  const revoke = async () => {
    await revokeKey(doomed.prefix);
    await client.invalidateQueries({ queryKey: ["keys"] });
    toast.good(`The key ${doomed.name} is revoked.`);
  };
  return (
    <Confirm open onClose={onClose} title={`Revoke the key ${doomed.name}?`} action="Revoke it" danger onConfirm={revoke}>
      <p>Whoever calls as <strong className="wrap-anywhere">{doomed.caller}</strong> with <code>{doomed.prefix}</code> is refused from now on. Calls in flight end.</p>
      <p className="soft">A revoked key stays revoked; make another one instead.</p>
    </Confirm>
  );
}

function Nothing({ filtered }: { filtered: boolean }) {
  if (filtered) return <EmptyState icon={<KeyRound />} title="No key is like that">Take a filter away to see more.</EmptyState>;
  return <EmptyState icon={<KeyRound />} title="There is no key yet">Gates with <code>callers: keys</code> let nobody in without one.</EmptyState>;
}

/** A yard that keeps nothing has no keys. */
function NoStore() {
  return (
    <Card>
      <EmptyState icon={<KeyRound />} title="There are no keys here">
        Keys are kept in a store, and this yard has none. Name one in <code>toolyard.yaml</code> and start it again:
        <div className="Keys-how"><Code text={"store: sqlite:toolyard.db   # or postgres://…\n\ngates:\n  default:\n    callers: keys"} label="A configuration with a store" /></div>
      </EmptyState>
    </Card>
  );
}
