import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { MessageCircleQuestionMark } from "lucide-react";
import { useMemo } from "react";
import { queries } from "../api/queries";
import type { QueryFilter, QueryItem } from "../api/types";
import { Card } from "../components/Card";
import { Page } from "../components/Page";
import { Segments } from "../components/Segments";
import { EmptyState } from "../components/States";
import { type Column, Table } from "../components/Table";
import { Time } from "../components/Time";
import { count, duration, price, shortCount } from "../format";
import { visible } from "../format/visible";
import { useCanView } from "../session";
import { OutcomeStatus } from "./query/outcome";
import "./Queries.css";

const page = 50;

const views = [
  { value: "all", label: "All" },
  { value: "running", label: "Running" },
  { value: "answer", label: "Answered" },
  { value: "capability_miss", label: "No answer" },
  { value: "failed", label: "Failed" },
] as const;

type View = (typeof views)[number]["value"];

/** The questions that agents answered, newest first. */
export default function Queries() {
  const own = !useCanView();
  const search = useSearch({ from: "/queries" });
  const navigate = useNavigate({ from: "/queries" });
  const view: View = views.find(({ value }) => value === search.outcome)?.value ?? "all";
  const filter = useMemo(() => filterOf(view, search.agent), [view, search.agent]);
  const list = useInfiniteQuery(queries.agentQueries(filter));
  const columns = useMemo(() => columnsOf(own), [own]);
  const rows = useMemo(() => list.data?.pages.flatMap((each) => each.queries), [list.data]);
  return (
    <Page title="Queries" description={`Questions${own ? " from your account" : ""} to agents, newest first. Open one to see its turns, calls and evidence.`}>
      <Segments label="Outcome" value={view} items={[...views]} onChange={(next) => void navigate({ search: (old) => ({ ...old, outcome: next === "all" ? undefined : next }) })} />
      <Card flush>
        <Table
          label="Queries"
          columns={columns}
          rows={rows}
          rowKey={(row) => row.id}
          rowLink={(row) => ({ to: "/queries/$id", params: { id: row.id } })}
          error={list.error}
          onRetry={() => void list.refetch()}
          empty={<NoQueries filtered={view !== "all"} />}
          {...(list.hasNextPage && { more: { load: () => void list.fetchNextPage(), loading: list.isFetchingNextPage } })}
        />
      </Card>
    </Page>
  );
}

function filterOf(view: View, agent: string | undefined): QueryFilter {
  return { limit: page, ...(view !== "all" && { outcome: view }), ...(agent && { agent }) };
}

function NoQueries({ filtered }: { filtered: boolean }) {
  return (
    <EmptyState icon={<MessageCircleQuestionMark />} title={filtered ? "No matching queries" : "No queries yet"}>
      Queries appear here when someone asks an agent, for example with <code>toolyard ask</code>. Define agents under <code>agents</code> in <code>toolyard.yaml</code>.
    </EmptyState>
  );
}

function columnsOf(own: boolean): Column<QueryItem>[] {
  return [
    { id: "text", header: "Question", min: 340, grow: 4, cell: ({ text }) => <span className="cut Queries-text" title={visible(text)}>{visible(text)}</span> },
    { id: "at", header: "When", min: 92, cell: ({ at }) => <Time at={at} /> },
    { id: "outcome", header: "Outcome", min: 112, cell: ({ outcome, error }) => <OutcomeStatus outcome={outcome} {...(error && { error })} /> },
    { id: "agent", header: "Agent", min: 112, grow: 1, drop: 2, cell: ({ agent }) => <span className="cut" title={agent}>{agent}</span> },
    ...(own ? [] : [{ id: "caller", header: "Caller", min: 112, grow: 1, drop: 1, cell: ({ caller }: QueryItem) => <span className="cut" title={caller}>{visible(caller)}</span> }]),
    { id: "calls", header: "Turns / calls", min: 108, drop: 4, align: "right", wideOnly: true, cell: ({ usage }) => <span className="soft">{count(usage.turns)} / {count(usage.calls)}</span> },
    { id: "tokens", header: "Tokens", min: 84, drop: 5, align: "right", wideOnly: true, cell: ({ usage }) => <span className="soft">{shortCount(usage.inputTokens + usage.outputTokens)}</span> },
    { id: "took", header: "Duration", min: 84, drop: 6, align: "right", cell: ({ durationMs }) => duration(durationMs * 1e6) },
    { id: "price", header: "Price", min: 84, drop: 3, align: "right", cell: ({ priceUsd }) => <Price usd={priceUsd} /> },
  ];
}

function Price({ usd }: { usd: string }) {
  const text = price(usd);
  return <span className={text === "free" ? "faint" : undefined}>{text}</span>;
}
