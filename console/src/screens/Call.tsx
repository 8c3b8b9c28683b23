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
import { useMaySee, useMe } from "../session";
import { argumentsOf, leaveForTool } from "./call/again";
import { Facts } from "./call/Facts";
import { Path } from "./call/Path";
import { meaningOf } from "./calls/codes";
import "./Call.css";

const toList = <Link to="/calls">Calls</Link>;

/** One call: how it went, where its time went, what was sent and what came back. */
export default function Call() {
  const { id } = useParams({ from: "/calls/$id" });
  const { data: call, error, refetch } = useQuery(queries.call(id));
  const all = useMaySee();
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
        <Card title="Where the time went" description={`${duration(call.elapsedNs)} in all. What waits is amber, what runs is teal.`}><Path call={call} /></Card>
        <Card title="Facts"><Facts call={call} all={all} /></Card>
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
      {call.parent && <>/ <Link to="/calls/$id" params={{ id: call.parent }}>the call that made it</Link></>}
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
    leaveForTool(call, args);
    void navigate({ to: "/tools/$source/$name", params, search: { tab: "try", gate: call.gate } });
  };
  return (
    <>
      <Link to="/tools/$source/$name" params={params} className="Button Button-plain Button-m">Open the tool</Link>
      <Button icon={<FlaskConical />} onClick={again} title={args ? "Opens the form of the tool with these arguments" : "Opens the form of the tool; the arguments were not kept"}>Try it again</Button>
    </>
  );
}

function Failure({ call }: { call: CallDetail }) {
  return (
    <section className="Call-failure" aria-label="Why it failed">
      <p><code className="strong">{call.code}</code> {meaningOf(call.code)}</p>
      {call.message ? <Code text={call.message} label="What the caller was told" wrap maxHeight={240} /> : <p className="soft">No message was kept.</p>}
    </section>
  );
}

function Arguments({ call }: { call: CallDetail }) {
  const me = useMe();
  const shape = me?.arguments === "shape" ? "Names and kinds only: that is what this yard keeps." : undefined;
  return (
    <Card title="Arguments" description={shape}>
      {call.args !== undefined ? <JsonView value={call.args} label="Arguments" open={3} /> : <Missing>{whyNoArguments(me)}</Missing>}
    </Card>
  );
}

function whyNoArguments(me: Me | undefined): ReactNode {
  if (me?.arguments === "off") return <>This yard keeps no arguments. <code>record: {"{arguments: full}"}</code> in <code>toolyard.yaml</code> keeps them, without secrets; <code>shape</code> keeps names and kinds.</>;
  return "None were kept of this call: it had none, they were too large, or it is older than the setting.";
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
  if (call.code !== "OK" && call.code !== "TOOL_ERROR") return "It failed, so there is none.";
  if (me?.arguments !== "full") return <>Results are only told where <code>record: {"{arguments: full}"}</code> is set, and then kept in memory for the last calls.</>;
  return "Results are kept in memory for the last calls only, up to 16 KiB each. This one is gone.";
}

function Missing({ children }: { children: ReactNode }) {
  return <p className="soft Call-missing">{children}</p>;
}
