import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Activity } from "lucide-react";
import { queries } from "../../api/queries";
import { Button } from "../../components/Button";
import { Code } from "../../components/Code";
import { EmptyState } from "../../components/States";

/** The empty state: no matching calls, or no calls at all. */
export function NoCalls({ filtered, clear, own }: { filtered: boolean; clear: () => void; own: boolean }) {
  if (filtered) {
    return (
      <EmptyState icon={<Activity />} title="No matching calls" action={<Button onClick={clear}>Clear filters</Button>}>
        Names must match exactly. New matching calls appear as they happen.
      </EmptyState>
    );
  }
  return (
    <EmptyState icon={<Activity />} title={own ? "No calls for your account yet" : "No calls yet"}>
      {own ? <HowToCallYourself /> : <HowToCall />}
    </EmptyState>
  );
}

function HowToCall() {
  const gates = useQuery(queries.gates());
  const tools = useQuery(queries.tools({ limit: 1, mode: "read" }));
  const gate = gates.data?.gates[0];
  const tool = tools.data?.tools[0]?.name ?? "TOOL";
  return (
    <div className="Calls-how">
      <p>Run a tool from the <Link to="/catalog">catalog</Link>, connect an agent to <code>{location.origin}{gate?.path ?? "/mcp"}</code>, or send a call:</p>
      <Code text={curl(tool, gate?.callers === "keys")} label="A call with curl" />
    </div>
  );
}

function HowToCallYourself() {
  return (
    <div className="Calls-how">
      <p>Connect an agent to <code>{location.origin}/mcp</code> with your key, or send a call:</p>
      <Code text={curl("TOOL", true)} label="A call with curl" />
    </div>
  );
}

function curl(tool: string, keyed: boolean): string {
  const key = keyed ? ` \\\n  -H 'Authorization: Bearer ty_…'` : "";
  return `curl ${location.origin}/api/v1/calls${key} \\\n  -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify({ tool, args: {} })}'`;
}
