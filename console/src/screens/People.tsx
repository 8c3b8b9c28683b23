import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Users } from "lucide-react";
import { useMemo, useState } from "react";
import { blockPerson, unblockPerson } from "../api/actions";
import { ApiError } from "../api/client";
import { queries } from "../api/queries";
import type { Person, PersonFilter } from "../api/types";
import { Badge, Status } from "../components/Badge";
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
import { useCanChange, useMe } from "../session";
import { useDelayed } from "../useDelayed";
import { Issuers } from "./people/Issuers";
import { TokenCheck } from "./people/TokenCheck";
import "./People.css";

const states: { value: NonNullable<PersonFilter["state"]> | ""; label: string }[] = [
  { value: "", label: "All people" },
  { value: "active", label: "Not blocked" },
  { value: "blocked", label: "Blocked" },
];

/** The people identified by issuers, with their rights, and the issuers. */
export default function People() {
  const search = useSearch({ from: "/people" });
  const { q = "", issuer } = search;
  const state = oneOf(["active", "blocked"], search.state);
  const navigate = useNavigate({ from: "/people" });
  const [changing, setChanging] = useState<Person>();
  const typed = useDelayed(q, 200);
  const { data, error, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery(queries.people({ q: typed || undefined, state, issuer, limit: 200 }));
  const rows = useMemo(() => data?.pages.flatMap((page) => page.people), [data]);
  const more = hasNextPage ? { load: () => void fetchNextPage(), loading: isFetchingNextPage } : undefined;
  const columns = useColumns(setChanging);
  const { data: issuers } = useQuery(queries.issuers());
  if (issuers?.issuers.length === 0 || (error instanceof ApiError && error.status === 404)) return <Page title="People"><NoIssuers /></Page>;
  const narrow = (more: { q?: string | undefined; state?: string | undefined; issuer?: string | undefined }) => void navigate({ search: (old) => ({ ...old, ...more }), replace: "q" in more });
  const choices = [{ value: "", label: "All issuers" }, ...(issuers?.issuers ?? []).map(({ name }) => ({ value: name, label: name }))];
  return (
    <Page title="People" description="People who called tools with an access token or signed in to the console. Their permissions are determined by their groups and the issuer's access rules.">
      <div className="People-filters">
        <TextField label="Filter by name, email address or ID" labelHidden type="search" placeholder="Filter by name, email address or ID" value={q} onChange={(text) => narrow({ q: text || undefined })} maxLength={200} />
        <Select label="State" labelHidden value={state ?? ""} items={states} onChange={(next) => narrow({ state: next || undefined })} />
        {choices.length > 2 && <Select label="Issuer" labelHidden value={issuer ?? ""} items={choices} onChange={(next) => narrow({ issuer: next || undefined })} />}
      </div>
      <Card flush>
        <Table label="People" columns={columns} rows={rows} rowKey={(person) => person.caller} error={error} onRetry={() => void refetch()} empty={<NoPeople filtered={q !== "" || state !== undefined || issuer !== undefined} />} {...(more && { more })} />
      </Card>
      <Issuers />
      <TokenCheck />
      {changing && <Change key={changing.caller} person={changing} onClose={() => setChanging(undefined)} />}
    </Page>
  );
}

function useColumns(change: (person: Person) => void): Column<Person>[] {
  const mayChange = useCanChange();
  const me = useMe()?.caller;
  return useMemo(() => {
    const columns: Column<Person>[] = [
      { id: "name", header: "Name", min: 200, grow: 3, cell: (person) => <Name of={person} /> },
      { id: "role", header: "Role", min: 92, cell: ({ role }) => <Role role={role} /> },
      { id: "rights", header: "Gates", min: 130, grow: 2, drop: 2, cell: (person) => <Gates of={person} /> },
      { id: "groups", header: "Groups", min: 130, grow: 2, drop: 3, cell: ({ groups }) => <span className="cut" title={groups.join(", ")}>{groups.length > 0 ? visible(groups.join(", ")) : <span className="faint">none</span>}</span> },
      { id: "account", header: "Account", min: 110, grow: 1, drop: 4, cell: ({ account, caller }) => <span className="cut" title={account ?? caller}>{account ?? <span className="faint">own</span>}</span> },
      { id: "seen", header: "Last seen", min: 100, drop: 1, align: "right", cell: ({ seenAt }) => (seenAt ? <Time at={seenAt} /> : <span className="faint">never</span>) },
      { id: "state", header: "State", min: 92, cell: ({ blocked }) => (blocked ? <Status tone="bad" title={`Blocked by ${blocked.by} ${absolute(blocked.at)}${blocked.reason ? `: ${blocked.reason}` : ""}`}>Blocked</Status> : <Status tone="good">Active</Status>) },
    ];
    if (mayChange) {
      columns.push({
        id: "change", header: "", min: 96, align: "right",
        cell: (person) =>
          person.caller !== me && (
            <Button size="s" variant={person.blocked ? "plain" : "danger"} onClick={() => change(person)} aria-label={`${person.blocked ? "Unblock" : "Block"} ${labelOf(person)}`}>{person.blocked ? "Unblock" : "Block"}</Button>
          ),
      });
    }
    return columns;
  }, [mayChange, me, change]);
}

const labelOf = ({ name, caller }: Person) => visible(name ?? caller);

function Name({ of: person }: { of: Person }) {
  const { name, email, caller } = person;
  const second = name ? (email ?? caller) : email;
  return (
    <span className="People-name" title={[name, email, caller].filter(Boolean).join("\n")}>
      <span className="cut strong">{labelOf(person)}</span>
      {second && <span className="faint cut">{visible(second)}</span>}
    </span>
  );
}

const tones = { operator: "accent", viewer: "info", caller: "neutral", none: "warn" } as const;

function Role({ role }: { role: Person["role"] }) {
  if (role === "none") return <Badge tone="warn" title="No access rule matches this person's groups, so access is refused.">no access</Badge>;
  return <Badge tone={tones[role]} title={role === "caller" ? "Can view only their own calls and spend in the console." : undefined}>{role}</Badge>;
}

function Gates({ of: { gates, write } }: { of: Person }) {
  if (gates.length === 0) return <span className="faint">none</span>;
  return (
    <span className="People-gates">
      {gates.map((gate) => <Badge key={gate}>{gate === "*" ? "all gates" : gate}</Badge>)}
      {write && <Badge tone="warn">write</Badge>}
    </span>
  );
}

/** Blocks or unblocks a person. */
function Change({ person, onClose }: { person: Person; onClose: () => void }) {
  const client = useQueryClient();
  const [reason, setReason] = useState("");
  const label = labelOf(person);
  const done = async (text: string) => {
    await client.invalidateQueries({ queryKey: ["people"] });
    toast.good(text);
  };
  if (person.blocked) {
    const { by, at, reason: why } = person.blocked;
    return (
      <Confirm open onClose={onClose} title={`Unblock ${label}?`} action="Unblock" onConfirm={() => unblockPerson(person.caller).then(() => done(`Unblocked ${label}.`))}>
        <p>{by} blocked this person {absolute(at)}{why ? <>: <q className="wrap-anywhere">{visible(why)}</q></> : "."} The person will have the permissions that the access rules grant.</p>
      </Confirm>
    );
  }
  return (
    <Confirm open onClose={onClose} title={`Block ${label}?`} action="Block" danger onConfirm={() => blockPerson(person.caller, reason.trim()).then(() => done(`Blocked ${label}.`))}>
      <p>Access tokens and console sign-ins for <strong className="wrap-anywhere">{person.caller}</strong> will be rejected within 30 seconds on every replica. Running calls finish. API keys are not affected.</p>
      <TextField label="Reason" value={reason} onChange={setReason} maxLength={500} hint="For other operators." autoComplete="off" />
    </Confirm>
  );
}

function NoPeople({ filtered }: { filtered: boolean }) {
  if (filtered) return <EmptyState icon={<Users />} title="No matching people">Remove a filter to see more.</EmptyState>;
  return <EmptyState icon={<Users />} title="No people yet">People are listed after their first call with an access token, or their first sign-in to the console.</EmptyState>;
}

function NoIssuers() {
  return (
    <Card>
      <EmptyState icon={<Users />} title="No issuer configured">
        With an issuer, people sign in with their company account. Add one to <code>toolyard.yaml</code>:
        <div className="People-how"><Code text={"url: https://tools.example.com\nissuers:\n  corp:\n    issuer: https://login.example.com\n    console: {client: CLIENT_ID}\n    access:\n      - {groups: [staff], gates: [chat]}\n      - {groups: [platform], role: operator}"} label="A configuration with an issuer" /></div>
      </EmptyState>
    </Card>
  );
}
