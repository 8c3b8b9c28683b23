import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { isObject } from "../../api/json";
import { queries } from "../../api/queries";
import type { Change, Gate, PendingTool, Toolset } from "../../api/types";
import { Badge } from "../../components/Badge";
import { Time } from "../../components/Time";
import { count, plural } from "../../format";
import { momentOf } from "../calls/span";

const maxCallers = 6; // number of callers to list

/** A definition's last approval, its gates and its callers. */
export function Impact({ server, pending }: { server: string; pending: PendingTool }) {
  return (
    <dl className="Impact">
      <Fact name="Last approved"><LastApproval server={server} pending={pending} /></Fact>
      <Fact name="Gates"><GatesOf server={server} tool={pending.tool} /></Fact>
      <Fact name="Callers (30 days)"><CallersOf server={server} tool={pending.tool} /></Fact>
    </dl>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return <div><dt>{name}</dt><dd>{children}</dd></div>;
}

function LastApproval({ server, pending }: { server: string; pending: PendingTool }) {
  const { data } = useInfiniteQuery(queries.changes({ action: "server.approve", subject: server, limit: 200 }));
  if (pending.kind === "new") return <span className="faint">never</span>;
  const last = data?.pages[0]?.changes.find((change) => change.status < 400 && approves(change, pending.tool));
  if (!last) return <span className="faint">{data ? "on first connection or from the command line" : "…"}</span>;
  return <>{last.caller}, <Time at={last.at} /></>;
}

/** Reports whether a change approved a tool. */
function approves({ detail }: Change, tool: string): boolean {
  const tools = isObject(detail) ? detail.tools : undefined;
  return Array.isArray(tools) && tools.some((each) => isObject(each) && each.tool === tool);
}

function GatesOf({ server, tool }: { server: string; tool: string }) {
  const gates = useQuery(queries.gates());
  const toolsets = useQuery(queries.toolsets());
  if (!gates.data || !toolsets.data) return <span className="faint">…</span>;
  const found = gatesOf(gates.data.gates, toolsets.data.toolsets, server, tool);
  if (found.length === 0) return <span className="faint">not offered at any gate</span>;
  return <span className="row-wrap">{found.map(({ name, mode }) => <Link key={name} to="/gates" search={{ gate: name }}><Badge tone={mode === "write" ? "warn" : "neutral"} title={`${mode} gate`}>{name}</Badge></Link>)}</span>;
}

/** The gates whose toolset includes a tool, and gates that have no toolset. A read gate may still hide a write tool. */
export function gatesOf(gates: Gate[], toolsets: Toolset[], server: string, tool: string): Gate[] {
  const includes = (name: string) => toolsets.find((set) => set.name === name)?.servers?.some((pick) => pick.id === server && (!pick.tools || pick.tools.length === 0 || pick.tools.includes(tool)));
  return gates.filter((gate) => !gate.toolset || includes(gate.toolset));
}

function CallersOf({ server, tool }: { server: string; tool: string }) {
  const { data } = useInfiniteQuery({ ...queries.calls({ server, tool, since: momentOf(`${30}d`, today()), limit: 500 }), refetchOnWindowFocus: false });
  const calls = data?.pages[0]?.calls;
  if (!calls) return <span className="faint">…</span>;
  if (calls.length === 0) return <span className="faint">no calls</span>;
  const names = [...new Set(calls.map((call) => call.caller))];
  const more = data.pages[0]?.next !== undefined;
  return (
    <>
      {names.slice(0, maxCallers).join(", ")}{names.length > maxCallers && ` and ${count(names.length - maxCallers)} more`}
      <span className="faint"> · <Link to="/calls" search={{ server, tool, since: "30d" }}>{more ? `${count(calls.length)}+ calls` : plural(calls.length, "call")}</Link></span>
    </>
  );
}

/** The start of the day, which keeps the query key stable. */
function today(): number {
  return Math.floor(Date.now() / 86_400_000) * 86_400_000;
}
