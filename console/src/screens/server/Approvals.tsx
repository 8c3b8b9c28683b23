import { useQuery, useQueryClient } from "@tanstack/react-query";
import { CircleCheck, ShieldOff, Unplug } from "lucide-react";
import { useCallback, useState } from "react";
import { approve, reject } from "../../api/actions";
import { ApiError } from "../../api/client";
import { queries } from "../../api/queries";
import type { PendingTool, ServerDetail } from "../../api/types";
import { Button } from "../../components/Button";
import { EmptyState, ErrorState, Skeleton } from "../../components/States";
import { toast } from "../../components/Toast";
import { Checkbox } from "../../components/Toggle";
import { count, plural } from "../../format";
import { useCanChange } from "../../session";
import { ApprovalConfirm, type Decision } from "./ApprovalConfirm";
import { keyOf, canApprove, picks } from "./review";
import { PendingItem } from "./PendingItem";
import "./Approvals.css";

/** A server's definitions that differ from the approved ones. */
export function Approvals({ server, tool }: { server: ServerDetail; tool: string | undefined }) {
  const up = server.state === "up"; // definitions are known only in this state
  const { data, error, refetch } = useQuery({ ...queries.pending(server.id), enabled: up, refetchInterval: 3_000 });
  if (!up) {
    return <EmptyState icon={<Unplug />} title="The server is not up">When the server is up, its definitions are compared with the approved ones.</EmptyState>;
  }
  if (!data) return error ? <ErrorState error={error} onRetry={() => void refetch()} /> : <Skeleton lines={6} />;
  if (data.pending.length === 0) return <NothingPending server={server} />;
  return <PendingDefinitions key={server.id} id={server.id} all={data.pending} tool={tool} />;
}

function NothingPending({ server }: { server: ServerDetail }) {
  if (server.pin === "off") {
    return (
      <EmptyState icon={<ShieldOff />} title="Definitions are not pinned">
        This server is configured with <code>pin: off</code>: definitions are offered without approval.
      </EmptyState>
    );
  }
  return (
    <EmptyState icon={<CircleCheck />} title="No pending approvals">
      All definitions match the approved ones. Changed definitions are withheld until they are approved.
    </EmptyState>
  );
}

type PendingDefinitionsProps = { id: string; all: PendingTool[]; tool: string | undefined };

function PendingDefinitions({ id, all, tool }: PendingDefinitionsProps) {
  const mayChange = useCanChange();
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const [reviewed, setReviewed] = useState<ReadonlySet<string>>(new Set());
  const [decision, setDecision] = useState<Decision>();
  const [notice, setNotice] = useState<string>();
  const decide = useDecide(id);
  const waiting = all.filter((each) => !each.rejected);
  const [first] = useState(tool ?? waiting[0]?.tool); // definitions that arrive later stay closed
  const rejected = all.filter((each) => each.rejected);
  const chosen = all.filter((each) => picked.has(keyOf(each)));
  const confirm = async (made: Decision) => {
    setNotice(await decide(made));
    setPicked(new Set());
  };
  const pick = (each: PendingTool, on: boolean) => setPicked(toggled(picked, keyOf(each), on));
  const read = useCallback((each: PendingTool) => setReviewed((old) => (old.has(keyOf(each)) ? old : new Set([...old, keyOf(each)]))), []);
  const item = { server: id, mayChange, picked, reviewed, pick, read, decide: setDecision };
  return (
    <div className="stack">
      {notice && <p className="Approvals-notice" role="alert">{notice}</p>}
      {mayChange ? (
        <Toolbar waiting={waiting} chosen={chosen} reviewed={reviewed} onAll={(on) => setPicked(new Set(on ? waiting.map(keyOf) : []))} onDecide={setDecision} />
      ) : (
        <p className="Approvals-sentence">Approving and rejecting definitions requires a key with the <code>operator</code> scope.</p>
      )}
      {waiting.length === 0 && <p className="soft">No pending definitions. Rejected ones stay withheld.</p>}
      <ItemList label="Pending definitions" list={waiting} first={first} {...item} />
      {rejected.length > 0 && (
        <details className="Approvals-rejected" open={rejected.some((each) => each.tool === tool)}>
          <summary>Rejected <span className="faint">{count(rejected.length)}</span></summary>
          <ItemList label="Rejected definitions" list={rejected} first={tool} {...item} />
        </details>
      )}
      <ApprovalConfirm id={id} decision={decision} onClose={() => setDecision(undefined)} onConfirm={confirm} />
    </div>
  );
}

function toggled(set: ReadonlySet<string>, key: string, on: boolean): ReadonlySet<string> {
  const next = new Set(set);
  if (on) next.add(key);
  else next.delete(key);
  return next;
}

/**
 * Sends a decision. If a definition has changed in the meantime, nothing is decided: it reloads the
 * list and returns a message.
 */
function useDecide(id: string) {
  const client = useQueryClient();
  return async ({ action, list }: Decision): Promise<string | undefined> => {
    try {
      await (action === "approve" ? approve : reject)(id, picks(list));
      toast.good(`${action === "approve" ? "Approved" : "Rejected"} ${plural(list.length, "definition")} of ${id}.`);
      return undefined;
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 409) throw error;
      return `${error.message} Nothing was changed. The list has been refreshed.`;
    } finally {
      await Promise.all(["servers", "overview", "tools", "problems"].map((key) => client.invalidateQueries({ queryKey: [key] })));
    }
  };
}

type ToolbarProps = { waiting: PendingTool[]; chosen: PendingTool[]; reviewed: ReadonlySet<string>; onAll: (on: boolean) => void; onDecide: (decision: Decision) => void };

/** Bulk actions. Only definitions that were opened can be approved. */
function Toolbar({ waiting, chosen, reviewed, onAll, onDecide }: ToolbarProps) {
  const approvable = chosen.filter(canApprove);
  const unreviewed = approvable.filter((each) => !reviewed.has(keyOf(each))).length;
  const selected = waiting.filter((each) => chosen.includes(each)).length;
  const refused = chosen.length - approvable.length;
  return (
    <div className="Approvals-bar">
      <Checkbox
        label={chosen.length === 0 ? `Select all ${count(waiting.length)}` : `${count(chosen.length)} selected`}
        checked={waiting.length > 0 && selected === waiting.length}
        indeterminate={selected > 0 && selected < waiting.length}
        disabled={waiting.length === 0}
        onChange={onAll}
      />
      {refused > 0 && <span className="faint small">{plural(refused, "refused definition")} cannot be approved</span>}
      {unreviewed > 0 && <span className="warn small" role="status">Review {plural(unreviewed, "more definition")} before you approve</span>}
      <span className="grow" />
      <Button variant="danger" disabled={chosen.length === 0} onClick={() => onDecide({ action: "reject", list: chosen })}>
        Reject{chosen.length > 0 && ` ${count(chosen.length)}`}
      </Button>
      <Button variant="primary" disabled={approvable.length === 0 || unreviewed > 0} onClick={() => onDecide({ action: "approve", list: approvable })}>
        Approve{approvable.length > 0 && ` ${count(approvable.length)}`}
      </Button>
    </div>
  );
}

const page = 50; // definitions shown at first, and added per click

type ItemListProps = {
  label: string;
  list: PendingTool[];
  /** The tool whose definition is initially open. */
  first: string | undefined;
  server: string;
  mayChange: boolean;
  picked: ReadonlySet<string>;
  reviewed: ReadonlySet<string>;
  read: (each: PendingTool) => void;
  pick: (each: PendingTool, on: boolean) => void;
  decide: (decision: Decision) => void;
};

function ItemList({ label, list, first, server, mayChange, picked, reviewed, read, pick, decide }: ItemListProps) {
  const [limit, setLimit] = useState(() => Math.max(page, list.findIndex((each) => each.tool === first) + 1));
  return (
    <>
      <ul className="Approvals-list" aria-label={label}>
        {list.slice(0, limit).map((each) => (
          <PendingItem key={keyOf(each)} pending={each} first={each.tool === first} mayChange={mayChange} picked={picked.has(keyOf(each))} reviewed={reviewed.has(keyOf(each))} server={server} onReview={read} onPick={pick} onDecide={decide} />
        ))}
      </ul>
      {list.length > limit && (
        <div className="row">
          <Button size="s" variant="quiet" onClick={() => setLimit(limit + page)}>Show more</Button>
          <span className="faint small">{count(list.length - limit)} more</span>
        </div>
      )}
    </>
  );
}
