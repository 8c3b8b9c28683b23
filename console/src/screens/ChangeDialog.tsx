import type { ReactNode } from "react";
import type { Change } from "../api/types";
import { Status } from "../components/Badge";
import { Dialog } from "../components/Dialog";
import { JsonView } from "../components/JsonView";
import { absolute } from "../format";
import { actionLabel, outcome } from "./changeLabels";

export function ChangeDialog({ change, onClose }: { change: Change | undefined; onClose: () => void }) {
  if (!change) return null;
  const { tone, word } = outcome(change.status);
  return (
    <Dialog open onClose={onClose} title={actionLabel(change.action)} description={<span className="mono wrap-anywhere">{change.subject}</span>}>
      <div className="stack">
        <dl className="Changes-facts">
          <Fact name="When">{absolute(change.at)}</Fact>
          <Fact name="Who">{change.caller}</Fact>
          {change.account && <Fact name="Account">{change.account}</Fact>}
          {change.remote && <Fact name="From">{change.remote}</Fact>}
          <Fact name="Outcome"><Status tone={tone}>{word}{change.status > 0 && ` (${change.status})`}</Status></Fact>
          <Fact name="ID">{change.id}</Fact>
        </dl>
        {change.detail ? <JsonView value={change.detail} label="Request" open={3} /> : <p className="faint">No further details.</p>}
      </div>
    </Dialog>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt className="soft">{name}</dt>
      <dd className="wrap-anywhere">{children}</dd>
    </>
  );
}
