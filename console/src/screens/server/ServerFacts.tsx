import type { ReactNode } from "react";
import type { ServerDetail } from "../../api/types";
import { CopyButton } from "../../components/Code";
import { count, plural } from "../../format";
import { visible } from "../../format/visible";
import { ServerState } from "./ServerState";

const pinLabels: Record<ServerDetail["pin"], string> = {
  first: "Initial definitions are trusted; changes require approval",
  approve: "Every definition requires approval",
  off: "Definitions are not pinned",
};

/** The details of a server. */
export function ServerFacts({ server }: { server: ServerDetail }) {
  const itself = [server.name, server.version].filter(Boolean).join(" ");
  return (
    <dl className="Server-facts">
      <Fact name="State"><ServerState server={server} /></Fact>
      <Fact name={server.transport === "stdio" ? "Command" : "URL"}>
        <span className="row"><code className="wrap-anywhere">{visible(server.target)}</code><CopyButton text={server.target} label={`Copy ${server.target}`} /></span>
      </Fact>
      <Fact name="Protocol">{server.protocol ? `MCP ${server.protocol} over ${server.transport}` : server.transport}</Fact>
      {itself && <Fact name="Reports as"><span className="wrap-anywhere">{visible(itself)}</span></Fact>}
      <Fact name="Provides">{plural(server.tools, "tool")}, {plural(server.resources, "resource")}, {plural(server.prompts, "prompt")}</Fact>
      <Fact name="Pinning">{pinLabels[server.pin]} <code className="faint">pin: {server.pin}</code></Fact>
      <Fact name="Restarts">{count(server.restarts)}</Fact>
      {server.required && <Fact name="Required">The yard is not ready while this server is down</Fact>}
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
