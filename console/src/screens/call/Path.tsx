import { Link } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import type { CallDetail } from "../../api/types";
import { Button } from "../../components/Button";
import { CodeStatus } from "../../components/Badge";
import { duration, percent, plural } from "../../format";
import { visible } from "../../format/visible";
import { type CallStep, type Nested, nestedOf, stepsOf } from "./steps";

const initialNested = 20; // nested calls shown at first

/** A call's steps and its nested calls on a time axis. */
export function Path({ call }: { call: CallDetail }) {
  const steps = stepsOf(call);
  const nested = nestedOf(call, call.children);
  const lines = steps.map((step) => (
    <Step key={step.step} step={step} totalNs={call.elapsedNs}>
      {step.step === "run" && <NestedCalls nested={nested} totalNs={call.elapsedNs} />}
    </Step>
  ));
  return (
    <>
      {steps.length + nested.length > 0 && <div className="Path-axis faint small" aria-hidden="true"><span>0</span><span>{duration(call.elapsedNs / 2)}</span><span>{duration(call.elapsedNs)}</span></div>}
      {steps.length > 0 ? <ol className="Path" aria-label="Call steps">{lines}</ol> : <p className="faint">The steps were not recorded.</p>}
      {!steps.some((step) => step.step === "run") && nested.length > 0 && <NestedCalls nested={nested} totalNs={call.elapsedNs} />}
    </>
  );
}

function Step({ step, totalNs, children }: { step: CallStep; totalNs: number; children: ReactNode }) {
  const durationNs = step.endNs - step.startNs;
  const tone = step.failed ? "bad" : step.kind;
  return (
    <li>
      <div className="Path-line" title={`${step.name}: ${step.meaning}`}>
        <span className="Path-about">
          <span className={step.failed ? "strong bad" : step.kind === "work" ? "" : "strong"}>{step.name}{step.failed && " (failed)"}</span>
          <span className="Path-meaning">{step.meaning}</span>
        </span>
        <Track startNs={step.startNs} endNs={step.endNs} totalNs={totalNs} tone={tone} />
        <span className="Path-time">{durationNs === 0 ? "<1 µs" : duration(durationNs)}</span>
        <span className="Path-share">{percent(durationNs, totalNs)}</span>
      </div>
      {children}
    </li>
  );
}

/** A bar on the time axis. */
export function Track({ startNs, endNs, totalNs, tone }: { startNs: number; endNs: number; totalNs: number; tone: string }) {
  const share = (ns: number) => (totalNs <= 0 ? 0 : (ns / totalNs) * 100);
  return (
    <span className="Path-track" aria-hidden="true">
      <span className={`Path-bar Path-${tone}`} style={{ left: `min(${share(startNs)}%, 100% - 3px)`, width: `max(3px, ${share(endNs - startNs)}%)` }} />
    </span>
  );
}

function NestedCalls({ nested, totalNs }: { nested: Nested[]; totalNs: number }) {
  const [all, setAll] = useState(false);
  if (nested.length === 0) return null;
  const shown = all ? nested : nested.slice(0, initialNested);
  return (
    <>
      <ol className="Path-inside" aria-label="Nested calls">
        {shown.map(({ call, startNs, endNs }) => (
          <li key={call.id} className="Path-line">
            <span className="Path-about Path-child">
              <Link to="/calls/$id" params={{ id: call.id }} className="cut" title={visible([call.server, call.tool].filter(Boolean).join(" / "))}>
                {call.server && <span className="faint">{visible(call.server)} / </span>}
                {visible(call.tool)}
              </Link>
              <CodeStatus code={call.code} />
            </span>
            <Track startNs={startNs} endNs={endNs} totalNs={totalNs} tone={call.code === "OK" ? "nested" : "bad"} />
            <span className="Path-time">{duration(call.elapsedNs)}</span>
            <span className="Path-share">{percent(call.elapsedNs, totalNs)}</span>
          </li>
        ))}
      </ol>
      {nested.length > shown.length && <Button size="s" variant="quiet" onClick={() => setAll(true)}>Show {plural(nested.length - shown.length, "more call")}</Button>}
    </>
  );
}
