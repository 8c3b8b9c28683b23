import { ChevronRight } from "lucide-react";
import { useEffect, useId, useRef, useState } from "react";
import type { PendingTool } from "../../api/types";
import { StateStatus } from "../../components/Badge";
import { Button } from "../../components/Button";
import { Checkbox } from "../../components/Toggle";
import { visible } from "../../format/visible";
import type { Decision } from "./ApprovalConfirm";
import { changedMembers, mayApprove } from "./judging";
import { DefinitionView } from "./DefinitionView";
import { Hash } from "./Hash";

type PendingItemProps = {
  pending: PendingTool;
  /** It is open when the list comes, and in view. */
  first: boolean;
  mayChange: boolean;
  picked: boolean;
  onPick: (pending: PendingTool, on: boolean) => void;
  onDecide: (decision: Decision) => void;
};

/** One definition that differs: a line that unfolds into what was and what is. */
export function PendingItem({ pending, first, mayChange, picked, onPick, onDecide }: PendingItemProps) {
  const [open, setOpen] = useState(first);
  const id = useId();
  const item = useRef<HTMLLIElement>(null);
  useEffect(() => {
    const top = item.current?.getBoundingClientRect().top ?? 0;
    if (first && top > innerHeight / 2) item.current?.scrollIntoView({ block: "start" });
  }, [first]);
  const name = visible(pending.tool);
  return (
    <li ref={item} className="Approvals-item">
      <div className="Approvals-head">
        {mayChange && <Checkbox label={`Select ${name}`} labelHidden checked={picked} onChange={(on) => onPick(pending, on)} />}
        <h2 className="grow">
          <button type="button" className="Approvals-fold" aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)}>
            <ChevronRight aria-hidden="true" />
            <code className="cut" title={name}>{name}</code>
            <StateStatus state={pending.kind} />
            <span className="Approvals-sum cut">{summary(pending)}</span>
          </button>
        </h2>
        {pending.hash && <span className="only-wide"><Hash hash={pending.hash} /></span>}
      </div>
      {open && (
        <div id={id} className="Approvals-body">
          <DefinitionView pending={pending} />
          {mayChange && <Buttons pending={pending} onDecide={onDecide} />}
        </div>
      )}
    </li>
  );
}

function summary(pending: PendingTool): string {
  if (pending.kind === "changed") return changedMembers(pending);
  if (pending.kind === "refused") return visible(pending.refused ?? "");
  return "";
}

function Buttons({ pending, onDecide }: { pending: PendingTool; onDecide: (decision: Decision) => void }) {
  return (
    <div className="row-wrap">
      {mayApprove(pending) && (
        <Button size="s" variant="primary" onClick={() => onDecide({ deed: "approve", list: [pending] })}>
          {pending.kind === "gone" ? "Let it go" : "Approve this"}
        </Button>
      )}
      {!pending.rejected && <Button size="s" variant="danger" onClick={() => onDecide({ deed: "reject", list: [pending] })}>Reject this</Button>}
    </div>
  );
}
