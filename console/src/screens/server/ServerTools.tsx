import { useInfiniteQuery } from "@tanstack/react-query";
import { Wrench } from "lucide-react";
import { useMemo } from "react";
import type { LatencyStats, ServerDetail, ToolItem } from "../../api/types";
import { Badge } from "../../components/Badge";
import { Card } from "../../components/Card";
import { EmptyState } from "../../components/States";
import { type Column, Table } from "../../components/Table";
import { count, duration, percent } from "../../format";
import { visible } from "../../format/visible";
import { catalogPages } from "../toolset/catalog";

type Row = ToolItem & { stats: LatencyStats | undefined };

/** What a server offers, and how fast and how well each tool answered lately. */
export function ServerTools({ server }: { server: ServerDetail }) {
  const tools = useInfiniteQuery(catalogPages({ source: server.id }));
  const rows = useMemo(() => {
    const stats = new Map(server.latency?.map((each) => [each.tool, each]));
    return tools.data?.pages.flatMap((page) => page.tools).map((tool): Row => ({ ...tool, stats: stats.get(tool.name) }));
  }, [tools.data, server.latency]);
  return (
    <Card flush>
      <Table
        label={`Tools of ${server.id}`}
        columns={columns}
        rows={rows}
        rowKey={(tool) => tool.name}
        rowLink={(tool) => ({ to: "/tools/$source/$name", params: { source: server.id, name: tool.name } })}
        error={tools.error}
        onRetry={() => void tools.refetch()}
        empty={<NoTools server={server} />}
        minWidth={760}
        {...(tools.hasNextPage && { more: { load: () => void tools.fetchNextPage(), loading: tools.isFetchingNextPage } })}
      />
    </Card>
  );
}

const none = <span className="faint">—</span>;

const columns: Column<Row>[] = [
  {
    id: "name",
    header: "Tool",
    value: (tool) => tool.name,
    cell: (tool) => (
      <span className="Server-tool">
        <span className="cut" title={tool.name}>{tool.name}</span>
        <span className="Server-under cut">{visible(tool.summary)}</span>
      </span>
    ),
  },
  { id: "mode", header: "Effect", width: "88px", value: (tool) => tool.mode, cell: ({ mode }) => <Badge tone={mode === "write" ? "warn" : "neutral"}>{mode}</Badge> },
  { id: "calls", header: "Calls", width: "96px", align: "right", value: ({ stats }) => stats?.calls, cell: ({ stats }) => (stats ? count(stats.calls) : none) },
  { id: "errors", header: "Failed", width: "120px", align: "right", value: ({ stats }) => stats?.errors, cell: ({ stats }) => (stats ? <Errors stats={stats} /> : none) },
  { id: "p50", header: "p50", width: "88px", align: "right", value: ({ stats }) => stats?.p50Ns, cell: ({ stats }) => (stats ? duration(stats.p50Ns) : none) },
  { id: "p95", header: "p95", width: "88px", align: "right", value: ({ stats }) => stats?.p95Ns, cell: ({ stats }) => (stats ? duration(stats.p95Ns) : none) },
];

function Errors({ stats: { errors, calls } }: { stats: LatencyStats }) {
  if (errors === 0) return <span className="faint">0</span>;
  return <span className="bad">{count(errors)} <span className="small">({percent(errors, calls)})</span></span>;
}

function NoTools({ server }: { server: ServerDetail }) {
  return (
    <EmptyState icon={<Wrench />} title="It offers no tool">
      {server.waiting > 0 ? "All that it has waits for approval." : server.state === "up" ? "It has none, or the configuration wants none of them." : "What it has is known once it was up."}
    </EmptyState>
  );
}
