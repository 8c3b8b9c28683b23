import { Link } from "@tanstack/react-router";
import { CircleCheck, CircleDashed, CircleX, Lightbulb, TriangleAlert } from "lucide-react";
import type { Step, GateDecision } from "../../api/types";
import { Badge, Status } from "../../components/Badge";
import { Card } from "../../components/Card";
import { EmptyState } from "../../components/States";
import { visible } from "../../format/visible";

/** For each gate: whether it offers the tool, under which name, and the rules that decided it. */
export function Visibility({ at }: { at: GateDecision[] }) {
  if (at.length === 0) return <EmptyState title="No gates">Add one under <code>gates</code> in the configuration.</EmptyState>;
  return (
    <Card flush>
      <div className="Who" role="table" aria-label="Visibility">
        <div role="rowgroup" className="Visibility-heads">
          <div role="row" className="Visibility-row">
            <span role="columnheader">Gate</span>
            <span role="columnheader">State</span>
            <span role="columnheader">Decision</span>
          </div>
        </div>
        <div role="rowgroup">
          {at.map((each) => (
            <GateStatus key={each.gate} at={each} />
          ))}
        </div>
      </div>
    </Card>
  );
}

function GateStatus({ at }: { at: GateDecision }) {
  const fails = at.steps.some((step) => step.fails);
  return (
    <div role="row" className="Visibility-row">
      <div role="cell" className="Visibility-gate">
        <Link to="/gates" search={{ gate: at.gate }} className="strong wrap-anywhere">{at.gate}</Link>
        {at.visible && <p className="small soft wrap-anywhere">as <code>{visible(at.name)}</code></p>}
      </div>
      <div role="cell">
        {at.visible ? <Status tone={fails ? "warn" : "good"}>{fails ? "Offered, but calls fail" : "Offered"}</Status> : <Status tone="neutral">Hidden</Status>}
      </div>
      <div role="cell"><Steps steps={at.steps} /></div>
    </div>
  );
}

function Steps({ steps }: { steps: Step[] }) {
  const stop = steps.findIndex((step) => step.stops);
  const end = stop < 0 ? steps.length : stop; // later steps have no effect
  return (
    <ol className="Visibility-steps">
      {steps.map((step, i) => (
        <li key={i} className={i === end ? "Visibility-step Visibility-stops" : i > end ? "Visibility-step faint" : "Visibility-step"}>
          <StepMark step={step} after={i > end} />
          <div className="grow wrap-anywhere">
            <code className="Visibility-rule">{step.rule}</code> {visible(step.text)}
            {i === end && <> <Badge tone="bad">stops here</Badge></>}
            {step.fails && <> <Badge tone="warn">calls fail</Badge></>}
            {step.fix && i <= end && <p className="Visibility-fix"><Lightbulb aria-hidden="true" /><span><span className="unseen">How to fix it: </span>{visible(step.fix)}</span></p>}
          </div>
        </li>
      ))}
    </ol>
  );
}

function StepMark({ step, after }: { step: Step; after: boolean }) {
  if (after) return <CircleDashed className="faint" aria-hidden="true" />;
  if (step.stops) return <CircleX className="bad" aria-hidden="true" />;
  if (step.fails) return <TriangleAlert className="warn" aria-hidden="true" />;
  return <CircleCheck className="good" aria-hidden="true" />;
}
