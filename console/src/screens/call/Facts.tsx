import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { CallDetail } from "../../api/types";
import { Badge } from "../../components/Badge";
import { CopyButton } from "../../components/Code";
import { Time } from "../../components/Time";
import { absolute, bytes, count, duration, parseMoney, price } from "../../format";

/** The details of a call. If all is false, links to pages for viewers are plain text. */
export function Facts({ call, all }: { call: CallDetail; all: boolean }) {
  return (
    <dl className="Call-facts">
      <Fact name="When"><Time at={call.at} /><div className="faint small">{absolute(call.at)}</div></Fact>
      {call.asOf && <Fact name="As of"><span title="The caller requested data as of this time.">{absolute(call.asOf)}</span></Fact>}
      <Fact name="Duration">{duration(call.elapsedNs)}</Fact>
      <Fact name="Price">{price(call.priceUsd)}</Fact>
      <Fact name="Paid by"><Payer call={call} /></Fact>
      <Fact name="Caller"><Link to="/calls" search={{ caller: call.caller }}>{call.caller}</Link></Fact>
      {call.account && <Fact name="Account">{all ? <Link to="/calls" search={{ account: call.account }}>{call.account}</Link> : call.account}</Fact>}
      {call.session && <Fact name="Session"><Link to="/calls" search={{ session: call.session }} className="mono">{call.session}</Link></Fact>}
      <Fact name="Gate">{all ? <Link to="/gates" search={{ gate: call.gate }}>{call.gate}</Link> : call.gate} <Badge tone={call.mode === "write" ? "warn" : "neutral"}>{call.mode}</Badge></Fact>
      <Fact name="Source">{call.server && all ? <Link to="/servers/$id" params={{ id: call.server }}>{call.server}</Link> : (call.server ?? "local")}</Fact>
      <Fact name="Size">{bytes(call.argsBytes)} in, {bytes(call.resultBytes)} out</Fact>
      <Fact name="Catalog">version {count(call.generation)}</Fact>
      {call.parent && <Fact name="Parent"><Link to="/calls/$id" params={{ id: call.parent }} className="mono">{call.parent}</Link></Fact>}
      <Fact name="ID"><span className="mono">{call.id}</span> <CopyButton text={call.id} label="Copy ID" /></Fact>
    </dl>
  );
}

function Payer({ call }: { call: CallDetail }) {
  if ((parseMoney(call.priceUsd) ?? 0n) === 0n) return <span className="faint">—</span>;
  if (call.session) return <Link to="/spend" search={{ tab: "sessions", account: call.account }}>a session{call.account && ` of ${call.account}`}</Link>;
  return call.account ? <Link to="/spend" search={{ tab: "accounts", account: call.account }}>{call.account}</Link> : <span className="faint">—</span>;
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd className="wrap-anywhere">{children}</dd>
    </>
  );
}
