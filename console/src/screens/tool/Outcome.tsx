import { Link } from "@tanstack/react-router";
import { RotateCw, Square } from "lucide-react";
import { useEffect, useState } from "react";
import { ApiError } from "../../api/client";
import { isObject, type Json } from "../../api/json";
import type { CallAnswer, CallEnd } from "../../api/types";
import { CodeStatus } from "../../components/Badge";
import { Button } from "../../components/Button";
import { Code } from "../../components/Code";
import { ErrorNote } from "../../components/States";
import { Tabs } from "../../components/Tabs";
import { duration, money, price } from "../../format";
import { visible } from "../../format/visible";
import { Content } from "./Content";
import { errorOf, resultIssues } from "./issues";
import type { Outcome as Ended } from "./rounds";
import { Structured } from "./Structured";
import { codeOf } from "./useToolRun";

/** The elapsed time of a running call, with a button to cancel it. */
export function Running({ since, onCancel }: { since: number; onCancel: () => void }) {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 100);
    return () => clearInterval(timer);
  }, []);
  return (
    <div className="Outcome-running">
      <span className="Button-spinner" aria-hidden="true" />
      <p className="grow"><span role="status">Running</span> <span aria-hidden="true">{(Math.max(0, now - since) / 1000).toFixed(1)} s</span></p>
      <Button size="s" icon={<Square />} onClick={onCancel}>Cancel</Button>
    </div>
  );
}

/** The outcome of the last call. */
export function Outcome({ outcome, onAgain }: { outcome: Ended | undefined; onAgain: () => void }) {
  if (!outcome) return <p className="faint">Run the tool to see its result here.</p>;
  return (
    <div className="stack-s" aria-live="polite">
      <div className="row-wrap">
        <CodeStatus code={codeOf(outcome)} />
        <span className="soft small">{duration(outcome.ms * 1e6)} round trip</span>
      </div>
      {outcome.error !== undefined && <Refused error={outcome.error} />}
      {outcome.lost && <RunAgain onAgain={onAgain} />}
      {outcome.answer && <Answered answer={outcome.answer} />}
    </div>
  );
}

/** A question can be answered only once, so the call has to start over. */
function RunAgain({ onAgain }: { onAgain: () => void }) {
  return (
    <div className="row-wrap">
      <Button icon={<RotateCw />} onClick={onAgain}>Run again</Button>
      <span className="soft small">The tool starts from the beginning.</span>
    </div>
  );
}

function Refused({ error }: { error: unknown }) {
  return (
    <>
      <ErrorNote error={error} />
      {error instanceof ApiError && <Retry ms={error.retryAfterMs} />}
    </>
  );
}

function Retry({ ms }: { ms: Json | undefined }) {
  if (typeof ms !== "number") return null;
  return <p className="soft small">Try again in {duration(ms * 1e6)}.</p>;
}

function Answered({ answer }: { answer: CallEnd }) {
  const { result, receipt, session } = answer;
  const { content, structuredContent: data } = result;
  const blocks = Array.isArray(content) ? content.filter(isObject) : [];
  const tabs = [
    ...(data !== undefined ? [{ id: "structured", label: "Structured", content: <Structured value={data} label="Structured content" /> }] : []),
    { id: "content", label: "Content", count: blocks.length, content: <Content content={blocks} /> },
    { id: "raw", label: "Raw", content: <Code text={JSON.stringify(answer, null, 2)} label="Raw response" /> },
  ];
  return (
    <>
      {result.isError && <Issues data={errorOf(result)} />}
      <Receipt receipt={receipt} remaining={session?.remainingUsd} />
      {answer.stackTrace && <Trace text={answer.stackTrace} />}
      <Tabs label="Result" tabs={tabs} />
    </>
  );
}

/** A script's stack trace. */
function Trace({ text }: { text: string }) {
  return (
    <section className="stack-s" aria-label="Stack trace">
      <p className="small soft">Stack trace</p>
      <Code text={text} label="Stack trace" wrap maxHeight={200} />
    </section>
  );
}

/** Issues with individual arguments, and the time to retry. */
function Issues({ data }: { data: Json | undefined }) {
  const issues = resultIssues(data);
  const wait = isObject(data) ? data.retryAfterMs : undefined;
  return (
    <>
      {issues.length > 0 && (
        <ul className="ErrorNote Outcome-issues">
          {issues.slice(0, 50).map(({ path, message }, i) => (
            <li key={i}>{path && <code>{visible(path)}</code>} {visible(message)}</li>
          ))}
        </ul>
      )}
      <Retry ms={wait} />
    </>
  );
}

function Receipt({ receipt, remaining }: { receipt: CallAnswer["receipt"]; remaining: string | undefined }) {
  if (!receipt) return null;
  const { call, priceUsd, remainingUsd, replayed } = receipt;
  const left = remaining ?? remainingUsd;
  return (
    <dl className="Outcome-receipt">
      <div><dt>Price</dt><dd>{price(priceUsd)}{replayed && ", already charged"}</dd></div>
      {left !== undefined && <div><dt>Remaining</dt><dd>{money(left)}</dd></div>}
      <div><dt>Call</dt><dd className="cut"><Link to="/calls/$id" params={{ id: call }} className="mono" title={call}>{call}</Link></dd></div>
    </dl>
  );
}
