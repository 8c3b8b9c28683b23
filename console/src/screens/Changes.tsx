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
import { ChangeDialog } from "./ChangesDialog";
import { deeds, deedWords, outcome } from "./changesWords";
import "./Changes.css";

type Filter = { caller?: string | undefined; deed?: string | undefined; subject?: string | undefined };

/** Who changed what, when, and how it went. */
export default function Changes() {
  const filter = useSearch({ from: "/changes" });
  const navigate = useNavigate({ from: "/changes" });
  const [shown, setShown] = useState<Change>();
  const changes = useInfiniteQuery(queries.changes({ ...filter, limit: 100 }));
  const narrow = useMemo(() => (more: Filter) => void navigate({ search: (old) => ({ ...old, ...more }), replace: true }), [navigate]);
  const columns = useMemo(() => columnsOf(narrow, setShown), [narrow]);
  return (
    <Page title="Changes" description="What people changed through the API and this console. The record is only added to.">
      <Filters filter={filter} narrow={narrow} />
      <Card flush>
        <Table
          label="Changes"
          columns={columns}
          rows={changes.data?.pages.flatMap((page) => page.changes)}
          rowKey={(change) => change.id}
          error={changes.error}
          onRetry={() => void changes.refetch()}
          empty={<Nothing filtered={Object.keys(filter).length > 0} />}
          {...(changes.hasNextPage && { more: { load: () => void changes.fetchNextPage(), loading: changes.isFetchingNextPage } })}
        />
      </Card>
      <ChangeDialog change={shown} onClose={() => setShown(undefined)} />
    </Page>
  );
}

function columnsOf(narrow: (more: Filter) => void, show: (change: Change) => void): Column<Change>[] {
  return [
    { id: "at", header: "When", width: "112px", cell: (change) => <Time at={change.at} /> },
    {
      id: "caller",
      header: "Who",
      width: "22%",
      cell: ({ caller }) => <button type="button" className="Changes-pick cut" title={`Only what ${caller} did`} onClick={() => narrow({ caller })}>{caller}</button>,
    },
    { id: "deed", header: "What", cell: (change) => <span className="cut" title={change.deed}>{deedWords(change.deed)}</span> },
    {
      id: "subject",
      header: "Of",
      width: "22%",
      cell: ({ subject }) => <button type="button" className="Changes-pick mono cut" title={`Only changes of ${subject}`} onClick={() => narrow({ subject })}>{subject}</button>,
    },
    { id: "status", header: "Outcome", width: "128px", cell: (change) => <Status tone={outcome(change.status).tone} title={String(change.status)}>{outcome(change.status).word}</Status> },
    { id: "more", header: "", width: "96px", align: "right", cell: (change) => <Button size="s" variant="quiet" onClick={() => show(change)}>Details</Button> },
  ];
}

function Filters({ filter, narrow }: { filter: Filter; narrow: (more: Filter) => void }) {
  const items = [{ value: "", label: "Everything" }, ...deeds.map((deed) => ({ value: deed, label: deedWords(deed) }))];
  return (
    <div className="row-wrap">
      <div className="Changes-deed">
        <Select label="What was done" labelHidden value={filter.deed ?? ""} items={items} onChange={(deed) => narrow({ deed: deed || undefined })} />
      </div>
      {filter.caller && <Button icon={<X />} onClick={() => narrow({ caller: undefined })}>by {filter.caller}</Button>}
      {filter.subject && <Button icon={<X />} onClick={() => narrow({ subject: undefined })}>of {filter.subject}</Button>}
    </div>
  );
}

function Nothing({ filtered }: { filtered: boolean }) {
  if (filtered) return <EmptyState icon={<History />} title="No change is like that">Take a filter away to see more.</EmptyState>;
  return (
    <EmptyState icon={<History />} title="Nobody changed anything yet">
      Approvals, edits of toolsets and gates, funding and keys are written down here, with who did it.
    </EmptyState>
  );
}
