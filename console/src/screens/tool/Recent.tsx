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
  { id: "at", header: "When", width: "120px", cell: (call) => <Time at={call.at} /> },
  { id: "code", header: "Outcome", width: "190px", cell: (call) => <CodeStatus code={call.code} /> },
  { id: "caller", header: "Caller", cell: (call) => <span className="cut" title={call.caller}>{call.caller}</span> },
  { id: "gate", header: "Gate", width: "140px", cell: (call) => <span className="cut" title={call.gate}>{call.gate}</span>, wideOnly: true },
  { id: "elapsed", header: "Took", width: "100px", align: "right", cell: (call) => duration(call.elapsedNs), value: (call) => call.elapsedNs },
  { id: "price", header: "Charged", width: "100px", align: "right", cell: (call) => price(call.priceUsd), value: (call) => parseMoney(call.priceUsd) },
];

/** The last calls of a tool. */
export function Recent({ tool }: { tool: ToolDetail }) {
  const filter = { tool: tool.name, ...(tool.server && { server: tool.server }), limit: 50 };
  const calls = useInfiniteQuery(queries.calls(filter));
  const rows = calls.data?.pages.flatMap((page) => page.calls).filter((call) => (call.server ?? "") === (tool.server ?? ""));
  return (
    <Card flush title="Recent calls" actions={<Link to="/calls" search={{ tool: tool.name, server: tool.server }}>All of them</Link>}>
      <Table
        label="Recent calls"
        columns={columns}
        rows={rows}
        rowKey={(call) => call.id}
        rowLink={(call) => ({ to: "/calls/$id", params: { id: call.id } })}
        error={calls.error}
        onRetry={() => void calls.refetch()}
        empty={<EmptyState title="It was not called yet">Calls by agents and those tried here appear in this list.</EmptyState>}
        {...(calls.hasNextPage && { more: { load: () => void calls.fetchNextPage(), loading: calls.isFetchingNextPage } })}
      />
    </Card>
  );
}
