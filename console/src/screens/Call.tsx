import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { FlaskConical } from "lucide-react";
import type { ReactNode } from "react";
import { queries } from "../api/queries";
import type { CallDetail, Me } from "../api/types";
import { CodeStatus } from "../components/Badge";
import { Button } from "../components/Button";
import { Card } from "../components/Card";
import { Code } from "../components/Code";
import { JsonView } from "../components/JsonView";
import { Page } from "../components/Page";
import { ErrorState, Skeleton } from "../components/States";
import { duration } from "../format";
import { visible } from "../format/visible";
import { useCanView, useMe } from "../session";
import { argumentsOf, storeArguments } from "./call/rerun";
import { Facts } from "./call/Facts";
import { Path } from "./call/Path";
import { meaningOf } from "./calls/codes";
import "./Call.css";

const toList = <Link to="/calls">Calls</Link>;

/** One call: outcome, timeline, arguments and result. */
export default function Call() {
  const { id } = useParams({ from: "/calls/$id" });
  const { data: call, error, refetch } = useQuery(queries.call(id));
  const all = useCanView();
  if (!call) {
    return (
      <Page title="Call" above={toList}>
        <Card>{error ? <ErrorState error={error} onRetry={() => void refetch()} /> : <Skeleton lines={8} />}</Card>
      </Page>
    );
  }
  return (
    <Page title={visible(call.tool)} above={<Above call={call} all={all} />} beside={<CodeStatus code={call.code} />} actions={all && <Actions call={call} />}>
      {call.code !== "OK" && <Failure call={call} />}
      <div className="Call-grid">
        <Card title="Timeline" description={`${duration(call.elapsedNs)} in total. Amber: waiting. Teal: running.`}><Path call={call} /></Card>
        <Card title="Details"><Facts call={call} all={all} /></Card>
      </div>
      <div className="grid-2">
        <Arguments call={call} />
        <Result call={call} />
      </div>
    </Page>
  );
}

function Above({ call, all }: { call: CallDetail; all: boolean }) {
  return (
    <span className="row-wrap">
      {toList}
      {call.parent && <>/ <Link to="/calls/$id" params={{ id: call.parent }}>parent call</Link></>}
      {call.server && all && <>/ <Link to="/servers/$id" params={{ id: call.server }}>{call.server}</Link></>}
    </span>
  );
}

function Actions({ call }: { call: CallDetail }) {
  const me = useMe();
  const navigate = useNavigate();
  const args = argumentsOf(call.args, me?.arguments);
  const params = { source: call.server ?? "-", name: call.tool };
  const again = () => {
    storeArguments(call, args);
    void navigate({ to: "/tools/$source/$name", params, search: { tab: "try", gate: call.gate } });
  };
  return (
    <>
      <Link to="/tools/$source/$name" params={params} className="Button Button-plain Button-m">Open tool</Link>
      <Button icon={<FlaskConical />} onClick={again} title={args ? "Open the tool with these arguments" : "Open the tool. The arguments were not recorded"}>Try again</Button>
    </>
  );
}

function Failure({ call }: { call: CallDetail }) {
  return (
    <section className="Call-failure" aria-label="Error">
      <p><code className="strong">{call.code}</code> {meaningOf(call.code)}</p>
      {call.message ? <Code text={call.message} label="Error message" wrap maxHeight={240} /> : <p className="soft">No message was recorded.</p>}
    </section>
  );
}

function Arguments({ call }: { call: CallDetail }) {
  const me = useMe();
  const shape = me?.arguments === "shape" ? "Only names and types are recorded." : undefined;
  return (
    <Card title="Arguments" description={shape}>
      {call.args !== undefined ? <JsonView value={call.args} label="Arguments" open={3} /> : <Missing>{whyNoArguments(me)}</Missing>}
    </Card>
  );
}

function whyNoArguments(me: Me | undefined): ReactNode {
  if (me?.arguments === "off") return <>Arguments are not recorded. Set <code>record: {"{arguments: full}"}</code> in <code>toolyard.yaml</code> to record them with secrets redacted, or <code>shape</code> to record only names and types.</>;
  return "No arguments were recorded. The call had none, or they were too large.";
}

function Result({ call }: { call: CallDetail }) {
  const me = useMe();
  return (
    <Card title="Result">
      {call.result !== undefined ? <JsonView value={call.result} label="Result" open={3} /> : <Missing>{whyNoResult(call, me)}</Missing>}
    </Card>
  );
}

function whyNoResult(call: CallDetail, me: Me | undefined): ReactNode {
  if (call.code !== "OK" && call.code !== "TOOL_ERROR") return "No result.";
  if (me?.arguments !== "full") return <>Results are not kept. With <code>record: {"{arguments: full}"}</code>, the results of recent calls are kept in memory.</>;
  return "The result is no longer available. Only the results of recent calls are kept in memory, up to 16 KiB each.";
}

function Missing({ children }: { children: ReactNode }) {
  return <p className="soft Call-missing">{children}</p>;
}
