import type { ReactNode } from "react";
import type { ServerDetail } from "../../api/types";
import { StateStatus } from "../../components/Badge";
import { CopyButton } from "../../components/Code";
import { Time } from "../../components/Time";
import { count, plural } from "../../format";
import { visible } from "../../format/visible";

const pinWords: Record<ServerDetail["pin"], string> = {
  first: "what it offers first is pinned, changes wait for approval",
  approve: "nothing is offered before somebody approves it",
  off: "off: whatever it offers is taken",
};

/** What is known of a server. */
export function ServerFacts({ server }: { server: ServerDetail }) {
  const itself = [server.name, server.version].filter(Boolean).join(" ");
  return (
    <dl className="Server-facts">
      <Fact name="State"><StateStatus state={server.state} /> <span className="faint">· <Time at={server.since} /></span></Fact>
      <Fact name={server.transport === "stdio" ? "Program" : "Address"}>
        <span className="row"><code className="wrap-anywhere">{visible(server.target)}</code><CopyButton text={server.target} label={`Copy ${server.target}`} /></span>
      </Fact>
      <Fact name="Speaks">{server.protocol ? `MCP ${server.protocol} over ${server.transport}` : server.transport}</Fact>
      {itself && <Fact name="Calls itself"><span className="wrap-anywhere">{visible(itself)}</span></Fact>}
      <Fact name="Offers">{plural(server.tools, "tool")}, {plural(server.resources, "resource")}, {plural(server.prompts, "prompt")}</Fact>
      <Fact name="Pinning"><code>{server.pin}</code> <span className="faint">{pinWords[server.pin]}</span></Fact>
      <Fact name="Restarts">{count(server.restarts)}</Fact>
      {server.required && <Fact name="Required">the yard is ready only when it is up</Fact>}
    </dl>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt className="soft">{name}</dt>
      <dd>{children}</dd>
    </>
  );
}
