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

/** A server's tools with their recent latency and failures. */
export function ServerTools({ server }: { server: ServerDetail }) {
  const tools = useInfiniteQuery(catalogPages({ source: server.id }));
  const rows = useMemo(() => {
    const stats = new Map(server.latency?.map((each) => [each.tool, each]));
    return tools.data?.pages.flatMap((page) => page.tools).map((tool): Row => ({ ...tool, stats: stats.get(tool.name) }));
  }, [tools.data, server.latency]);
  return (
    <Card flush>
      <Table
        label={`Tools from ${server.id}`}
        columns={columns}
        rows={rows}
        rowKey={(tool) => tool.name}
        rowLink={(tool) => ({ to: "/tools/$source/$name", params: { source: server.id, name: tool.name } })}
        error={tools.error}
        onRetry={() => void tools.refetch()}
        empty={<NoTools server={server} />}
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
    min: 200,
    grow: 1,
    value: (tool) => tool.name,
    cell: (tool) => (
      <span className="Server-tool">
        <span className="cut" title={tool.name}>{tool.name}</span>
        <span className="Server-under cut">{visible(tool.summary)}</span>
      </span>
    ),
  },
  { id: "mode", header: "Mode", min: 80, value: (tool) => tool.mode, cell: ({ mode }) => <Badge tone={mode === "write" ? "warn" : "neutral"}>{mode}</Badge> },
  { id: "calls", header: "Calls", min: 84, drop: 1, align: "right", value: ({ stats }) => stats?.calls, cell: ({ stats }) => (stats ? count(stats.calls) : none) },
  { id: "errors", header: "Failed", min: 112, align: "right", value: ({ stats }) => stats?.errors, cell: ({ stats }) => (stats ? <Errors stats={stats} /> : none) },
  { id: "p50", header: "p50", min: 84, drop: 3, align: "right", value: ({ stats }) => stats?.p50Ns, cell: ({ stats }) => (stats ? duration(stats.p50Ns) : none) },
  { id: "p95", header: "p95", min: 84, drop: 2, align: "right", value: ({ stats }) => stats?.p95Ns, cell: ({ stats }) => (stats ? duration(stats.p95Ns) : none) },
];

function Errors({ stats: { errors, calls } }: { stats: LatencyStats }) {
  if (errors === 0) return <span className="faint">0</span>;
  return <span className="bad">{count(errors)} <span className="small">({percent(errors, calls)})</span></span>;
}

function NoTools({ server }: { server: ServerDetail }) {
  return (
    <EmptyState icon={<Wrench />} title="No tools">
      {server.waiting > 0 ? "All of the server's definitions are pending approval." : server.state === "up" ? "The server provides no tools, or the configuration excludes them." : "The server's tools are listed after the first successful connection."}
    </EmptyState>
  );
}
