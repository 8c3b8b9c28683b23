import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { History, X } from "lucide-react";
import { useMemo, useState } from "react";
import { queries } from "../api/queries";
import type { Change } from "../api/types";
import { Status } from "../components/Badge";
import { Button } from "../components/Button";
import { Card } from "../components/Card";
import { Page } from "../components/Page";
import { Select } from "../components/Select";
import { EmptyState } from "../components/States";
import { type Column, Table } from "../components/Table";
import { Time } from "../components/Time";
import { ChangeDialog } from "./ChangeDialog";
import { actions, actionLabel, outcome } from "./changeLabels";
import "./Changes.css";

type Filter = { caller?: string | undefined; action?: string | undefined; subject?: string | undefined };

/** The audit log. */
export default function Changes() {
  const filter = useSearch({ from: "/changes" });
  const navigate = useNavigate({ from: "/changes" });
  const [shown, setShown] = useState<Change>();
  const changes = useInfiniteQuery(queries.changes({ ...filter, limit: 100 }));
  const narrow = useMemo(() => (more: Filter) => void navigate({ search: (old) => ({ ...old, ...more }) }), [navigate]);
  const columns = useMemo(() => columnsOf(narrow, setShown), [narrow]);
  return (
    <Page title="Changes" description="Audit log of changes made through the console, the API and the command line. Append-only.">
      <Filters filter={filter} narrow={narrow} />
      <Card flush>
        <Table
          label="Changes"
          columns={columns}
          rows={changes.data?.pages.flatMap((page) => page.changes)}
          rowKey={(change) => change.id}
          error={changes.error}
          onRetry={() => void changes.refetch()}
          empty={<NoChanges filtered={Object.keys(filter).length > 0} />}
          {...(changes.hasNextPage && { more: { load: () => void changes.fetchNextPage(), loading: changes.isFetchingNextPage } })}
        />
      </Card>
      <ChangeDialog change={shown} onClose={() => setShown(undefined)} />
    </Page>
  );
}

function columnsOf(narrow: (more: Filter) => void, show: (change: Change) => void): Column<Change>[] {
  return [
    { id: "at", header: "When", min: 96, cell: (change) => <Time at={change.at} /> },
    {
      id: "caller",
      header: "Who",
      min: 110,
      grow: 2,
      cell: ({ caller }) => <button type="button" className="Changes-pick cut" title={`Show only changes by ${caller}`} onClick={() => narrow({ caller })}>{caller}</button>,
    },
    { id: "action", header: "Action", min: 150, grow: 3, cell: (change) => <span className="cut" title={change.action}>{actionLabel(change.action)}</span> },
    {
      id: "subject",
      header: "Subject",
      min: 120,
      grow: 2,
      drop: 1,
      cell: ({ subject }) => <button type="button" className="Changes-pick mono cut" title={`Show only changes to ${subject}`} onClick={() => narrow({ subject })}>{subject}</button>,
    },
    { id: "status", header: "Outcome", min: 110, cell: (change) => <Status tone={outcome(change.status).tone} title={String(change.status)}>{outcome(change.status).word}</Status> },
    { id: "more", header: "", min: 96, align: "right", cell: (change) => <Button size="s" variant="quiet" onClick={() => show(change)}>Details</Button> },
  ];
}

function Filters({ filter, narrow }: { filter: Filter; narrow: (more: Filter) => void }) {
  const items = [{ value: "", label: "All actions" }, ...actions.map((action) => ({ value: action, label: actionLabel(action) }))];
  return (
    <div className="row-wrap">
      <div className="Changes-action">
        <Select label="Action" labelHidden value={filter.action ?? ""} items={items} onChange={(action) => narrow({ action: action || undefined })} />
      </div>
      {filter.caller && <Button icon={<X />} onClick={() => narrow({ caller: undefined })}>by {filter.caller}</Button>}
      {filter.subject && <Button icon={<X />} onClick={() => narrow({ subject: undefined })}>to {filter.subject}</Button>}
    </div>
  );
}

function NoChanges({ filtered }: { filtered: boolean }) {
  if (filtered) return <EmptyState icon={<History />} title="No matching changes">Remove a filter to see more.</EmptyState>;
  return (
    <EmptyState icon={<History />} title="No changes yet">
      Approvals, edits to toolsets, gates and prices, funding and key changes appear here.
    </EmptyState>
  );
}
