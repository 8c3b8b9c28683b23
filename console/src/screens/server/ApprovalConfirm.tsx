import { useState } from "react";
import type { PendingTool } from "../../api/types";
import { StateStatus } from "../../components/Badge";
import { Confirm } from "../../components/Dialog";
import { count, plural } from "../../format";
import { visible } from "../../format/visible";
import { consequences, keyOf } from "./review";

export type Decision = { action: "approve" | "reject"; list: PendingTool[] };

const maxNames = 12; // number of tool names to list

type ApprovalConfirmProps = { id: string; decision: Decision | undefined; onClose: () => void; onConfirm: (decision: Decision) => Promise<void> };

/** Asks for confirmation and explains the effect on each kind of definition. */
export function ApprovalConfirm({ id, decision, onClose, onConfirm }: ApprovalConfirmProps) {
  const [last, setLast] = useState(decision);
  if (decision && decision !== last) setLast(decision);
  const shown = decision ?? last; // keeps the content during the closing animation
  if (!shown) return null;
  const { action, list } = shown;
  const what = list.length === 1 ? visible(list[0]?.tool ?? "") : plural(list.length, "definition");
  const word = action === "approve" ? "Approve" : "Reject";
  return (
    <Confirm open={decision !== undefined} onClose={onClose} title={`${word} ${what} of ${id}?`} action={word} danger={action === "reject"} onConfirm={() => onConfirm(shown)}>
      {consequences(list, action).map((sentence) => <p key={sentence}>{sentence}</p>)}
      {list.length > 1 && (
        <ul className="Approvals-names">
          {list.slice(0, maxNames).map((each) => (
            <li key={keyOf(each)} className="row">
              <code className="cut grow" title={visible(each.tool)}>{visible(each.tool)}</code>
              <StateStatus state={each.kind} />
            </li>
          ))}
          {list.length > maxNames && <li className="faint">and {count(list.length - maxNames)} more</li>}
        </ul>
      )}
    </Confirm>
  );
}
