import { ChevronRight } from "lucide-react";
import { useEffect, useId, useRef, useState } from "react";
import type { PendingTool } from "../../api/types";
import { Badge, StateStatus } from "../../components/Badge";
import { Button } from "../../components/Button";
import { Checkbox } from "../../components/Toggle";
import { plural } from "../../format";
import { visible } from "../../format/visible";
import type { Decision } from "./ApprovalConfirm";
import { changedMembers, canApprove } from "./review";
import { DefinitionView } from "./DefinitionView";
import { Hash } from "./Hash";
import { Impact } from "./Impact";
import { risks } from "./risks";

type PendingItemProps = {
  pending: PendingTool;
  /** Whether it is initially open and scrolled into view. */
  first: boolean;
  mayChange: boolean;
  picked: boolean;
  /** Whether the definition was opened, so that it can be approved. */
  reviewed: boolean;
  server: string;
  onReview: (pending: PendingTool) => void;
  onPick: (pending: PendingTool, on: boolean) => void;
  onDecide: (decision: Decision) => void;
};

/** One pending definition: a row that expands into the diff. */
export function PendingItem({ pending, first, mayChange, picked, reviewed, server, onReview, onPick, onDecide }: PendingItemProps) {
  const [open, setOpen] = useState(first);
  const id = useId();
  const item = useRef<HTMLLIElement>(null);
  useEffect(() => {
    const top = item.current?.getBoundingClientRect().top ?? 0;
    if (first && top > innerHeight / 2) item.current?.scrollIntoView({ block: "start" });
  }, [first]);
  useEffect(() => {
    if (open && !reviewed) onReview(pending);
  }, [open, reviewed, onReview, pending]);
  const name = visible(pending.tool);
  return (
    <li ref={item} className="Approvals-item">
      <div className="Approvals-head">
        {mayChange && <Checkbox label={`Select ${name}`} labelHidden checked={picked} onChange={(on) => onPick(pending, on)} />}
        <h2 className="grow">
          <button type="button" className="Approvals-fold" aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)}>
            <ChevronRight aria-hidden="true" />
            <code className="cut" title={name}>{name}</code>
            {!reviewed && mayChange && <span className="Approvals-unread" title="Not reviewed yet"><span className="unseen">not reviewed yet</span></span>}
            <StateStatus state={pending.kind} />
            <RiskCount pending={pending} />
            <span className="Approvals-sum cut">{summary(pending)}</span>
          </button>
        </h2>
        {pending.hash && <span className="only-wide"><Hash hash={pending.hash} /></span>}
      </div>
      {open && (
        <div id={id} className="Approvals-body">
          <Impact server={server} pending={pending} />
          <DefinitionView pending={pending} />
          {mayChange && <Buttons pending={pending} onDecide={onDecide} />}
        </div>
      )}
    </li>
  );
}

function RiskCount({ pending }: { pending: PendingTool }) {
  const found = risks(pending);
  if (found.length === 0) return null;
  return <Badge tone="warn" title={found.map(({ title }) => title).join(", ")}>{found.length === 1 ? found[0]?.title : plural(found.length, "risk")}</Badge>;
}

function summary(pending: PendingTool): string {
  if (pending.kind === "changed") return changedMembers(pending);
  if (pending.kind === "refused") return visible(pending.refused ?? "");
  return "";
}

function Buttons({ pending, onDecide }: { pending: PendingTool; onDecide: (decision: Decision) => void }) {
  return (
    <div className="row-wrap">
      {canApprove(pending) && (
        <Button size="s" variant="primary" onClick={() => onDecide({ action: "approve", list: [pending] })}>
          {pending.kind === "gone" ? "Remove approval" : "Approve"}
        </Button>
      )}
      {!pending.rejected && <Button size="s" variant="danger" onClick={() => onDecide({ action: "reject", list: [pending] })}>Reject</Button>}
    </div>
  );
}
