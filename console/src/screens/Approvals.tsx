import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Check, ShieldCheck, X } from "lucide-react";
import { useState } from "react";
import { approveCall, declineCall } from "../api/actions";
import type { Json } from "../api/json";
import { queries } from "../api/queries";
import type { Approval, ApprovalState, ApproveCall } from "../api/types";
import { Badge, type Tone } from "../components/Badge";
import { Button } from "../components/Button";
import { Card } from "../components/Card";
import { TextField } from "../components/Field";
import { JsonView } from "../components/JsonView";
import { Page } from "../components/Page";
import { Segments } from "../components/Segments";
import { Select } from "../components/Select";
import { EmptyState, ErrorNote, ErrorState, Skeleton } from "../components/States";
import { Time } from "../components/Time";
import { visible } from "../format/visible";
import { useCanChange, useMe } from "../session";
import "./Approvals.css";

/** Calls that wait for an operator's approval, and past decisions. */
export default function Approvals() {
  const search = useSearch({ from: "/approvals" });
  const navigate = useNavigate({ from: "/approvals" });
  const view = search.view === "all" ? "all" : "pending";
  const { data, error, refetch } = useQuery(queries.approvals(view === "all" ? {} : { state: "pending" }));
  return (
    <Page title="Approvals" description="Calls that require operator approval under a rule. Each approval covers exactly one call.">
      <Segments
        label="Approvals"
        value={view}
        items={[{ value: "pending", label: "Waiting" }, { value: "all", label: "All" }]}
        onChange={(next) => void navigate({ search: next === "all" ? { view: "all" } : {} })}
      />
      {data ? <ApprovalList approvals={data.approvals} waiting={view === "pending"} /> : error ? <ErrorState error={error} onRetry={() => void refetch()} /> : <Skeleton lines={5} />}
    </Page>
  );
}

function ApprovalList({ approvals, waiting }: { approvals: Approval[]; waiting: boolean }) {
  if (approvals.length === 0) {
    return (
      <EmptyState icon={<ShieldCheck />} title={waiting ? "No calls are waiting for approval" : "No approvals yet"}>
        Calls appear here if a rule with <code>then: ask</code> matches them.
      </EmptyState>
    );
  }
  return (
    <ul className="Approvals" aria-label="Approvals">
      {approvals.map((approval) => <li key={approval.id}><OneApproval approval={approval} /></li>)}
    </ul>
  );
}

const tones: Record<ApprovalState, Tone> = { pending: "warn", approved: "good", used: "good", declined: "bad", expired: "neutral" };

const toolName = ({ server, tool }: Approval) => (server ? `${server}/${tool}` : tool);

function OneApproval({ approval }: { approval: Approval }) {
  return (
    <Card item title={visible(toolName(approval))} actions={<Badge tone={tones[approval.state]}>{approval.state}</Badge>}>
      {approval.message && <p className="Approvals-message wrap-anywhere">{visible(approval.message)}</p>}
      <dl className="Approvals-facts">
        <Fact name="Caller">{visible(approval.caller)}{approval.account !== approval.caller && <span className="soft"> of {visible(approval.account)}</span>}</Fact>
        <Fact name="Gate">{approval.gate}</Fact>
        <Fact name="Rule">{approval.rule}</Fact>
        {approval.priceUsd !== "0" && <Fact name="Price">${approval.priceUsd}</Fact>}
        <Fact name="Requested"><Time at={approval.createdAt} /></Fact>
        <Fact name="Expires"><Time at={approval.expiresAt} /></Fact>
        {approval.decision && <Fact name="Decided by">{visible(approval.decision.by)}{approval.decision.reason && <>: {visible(approval.decision.reason)}</>}</Fact>}
      </dl>
      <h3 className="Approvals-heading">Arguments</h3>
      <JsonView value={approval.arguments as Json} label={`Arguments for ${toolName(approval)}`} open={4} />
      <p className="soft small wrap-anywhere">
        {approval.hidden > 0 && <>{approval.hidden === 1 ? "1 value is" : `${approval.hidden} values are`} hidden because they may be secrets. </>}
        {approval.cut > 0 && <>{approval.cut === 1 ? "1 value is" : `${approval.cut} values are`} shortened. </>}
        An approval applies only to these exact arguments (SHA-256 <code title={approval.digest}>{approval.digest.slice(0, 12)}</code>).
      </p>
      {approval.state === "pending" && <Decide approval={approval} />}
    </Card>
  );
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div className="Approvals-fact">
      <dt className="soft small">{name}</dt>
      <dd className="wrap-anywhere">{children}</dd>
    </div>
  );
}

const choices = [
  { value: "once", label: "This call only" },
  { value: "same", label: "For an hour, with these arguments" },
  { value: "any", label: "For an hour, with any arguments" },
];

/** The request for the chosen duration of an approval. */
function approveRequest(reason: string, choice: string): ApproveCall {
  const remember = choice === "once" ? {} : { remember: { minutes: 60, arguments: choice === "any" ? ("any" as const) : ("same" as const) } };
  return { ...(reason && { reason }), ...remember };
}

function Decide({ approval }: { approval: Approval }) {
  const mayChange = useCanChange();
  const me = useMe();
  const client = useQueryClient();
  const [reason, setReason] = useState("");
  const [choice, setChoice] = useState("once");
  const decide = useMutation({
    mutationFn: (approve: boolean) => (approve ? approveCall(approval.id, approveRequest(reason, choice)) : declineCall(approval.id, reason ? { reason } : {})),
    onSettled: () => void client.invalidateQueries(),
  });
  if (!mayChange) return null;
  if (me?.caller === approval.caller && me.account === approval.account) return <p className="soft">You made this call: another operator must decide.</p>;
  const name = toolName(approval);
  return (
    <div className="Approvals-decide">
      <div className="Approvals-options">
        <Select label="Approve for" value={choice} items={choices} onChange={setChoice} />
        <TextField label="Reason (optional)" value={reason} maxLength={500} onChange={setReason} />
      </div>
      {decide.error && <ErrorNote error={decide.error} />}
      <div className="Approvals-buttons">
        <Button variant="danger" icon={<X />} aria-label={`Decline ${name}`} disabled={decide.isPending} onClick={() => decide.mutate(false)}>Decline</Button>
        <Button variant="primary" icon={<Check />} aria-label={`Approve ${name}`} busy={decide.isPending} onClick={() => decide.mutate(true)}>Approve</Button>
      </div>
    </div>
  );
}
