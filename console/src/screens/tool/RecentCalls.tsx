import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { queries } from "../../api/queries";
import type { CallRow, ToolDetail } from "../../api/types";
import { CodeStatus } from "../../components/Badge";
import { Card } from "../../components/Card";
import { EmptyState } from "../../components/States";
import { type Column, Table } from "../../components/Table";
import { Time } from "../../components/Time";
import { duration, parseMoney, price } from "../../format";

const columns: Column<CallRow>[] = [
  { id: "at", header: "When", min: 96, cell: (call) => <Time at={call.at} /> },
  { id: "code", header: "Outcome", min: 150, cell: (call) => <CodeStatus code={call.code} /> },
  { id: "caller", header: "Caller", min: 130, grow: 2, cell: (call) => <span className="cut" title={call.caller}>{call.caller}</span> },
  { id: "gate", header: "Gate", min: 110, grow: 1, drop: 2, cell: (call) => <span className="cut" title={call.gate}>{call.gate}</span>, wideOnly: true },
  { id: "elapsed", header: "Duration", min: 96, align: "right", cell: (call) => duration(call.elapsedNs), value: (call) => call.elapsedNs },
  { id: "price", header: "Price", min: 92, drop: 1, align: "right", cell: (call) => price(call.priceUsd), value: (call) => parseMoney(call.priceUsd) },
];

export function RecentCalls({ tool }: { tool: ToolDetail }) {
  const filter = { tool: tool.name, ...(tool.server && { server: tool.server }), limit: 50 };
  const calls = useInfiniteQuery(queries.calls(filter));
  const rows = calls.data?.pages.flatMap((page) => page.calls).filter((call) => (call.server ?? "") === (tool.server ?? ""));
  return (
    <Card flush title="Recent calls" actions={<Link to="/calls" search={{ tool: tool.name, server: tool.server }}>All calls</Link>}>
      <Table
        label="Recent calls"
        columns={columns}
        rows={rows}
        rowKey={(call) => call.id}
        rowLink={(call) => ({ to: "/calls/$id", params: { id: call.id } })}
        error={calls.error}
        onRetry={() => void calls.refetch()}
        empty={<EmptyState title="No calls yet">Calls by agents and from the Try it tab appear here.</EmptyState>}
        {...(calls.hasNextPage && { more: { load: () => void calls.fetchNextPage(), loading: calls.isFetchingNextPage } })}
      />
    </Card>
  );
}
