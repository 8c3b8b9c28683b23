import { Link, type LinkProps } from "@tanstack/react-router";
import { ChevronRight, CircleAlert, CircleCheck, Database, FileDiff, ServerOff } from "lucide-react";
import type { ReactNode } from "react";
import type { Overview } from "../api/types";
import { Card } from "../components/Card";
import { EmptyState } from "../components/States";
import { plural } from "../format";
import { otherProblems, storeDown } from "../health";

/** Problems that need attention, each with a link to the page where it can be fixed. */
export function Attention({ data }: { data: Overview }) {
  const lines = [...outages(data), ...approvals(data), ...problemLines(data)];
  return (
    <Card title="Needs attention" flush={lines.length > 0}>
      {lines.length > 0 ? (
        <ul className="Overview-list">{lines}</ul>
      ) : (
        <EmptyState icon={<CircleCheck />} title="All clear">
          No pending approvals, no servers down, no problems.
        </EmptyState>
      )}
    </Card>
  );
}

function outages(data: Overview): ReactNode[] {
  const { store, servers } = data;
  const lines: ReactNode[] = [];
  if (storeDown(data)) {
    lines.push(<Line key="store" icon={<Database className="bad" />} title="Store unreachable" text={`Limits and call records require the ${store.kind} store.`} />);
  }
  if (servers.down > 0) {
    lines.push(
      <Line key="down" icon={<ServerOff className="bad" />} title={`${plural(servers.down, "server")} down`} text={servers.down === 1 ? "Calls to its tools fail." : "Calls to their tools fail."} link={{ to: "/servers", search: { state: "down" } }} />,
    );
  }
  return lines;
}

/** Pending definitions, one line per server. */
function approvals({ pending, waiting }: Overview): ReactNode[] {
  const byServer = Map.groupBy(pending, (each) => each.server);
  const lines = [...byServer].map(([server, tools]) => (
    <Line
      key={`wait ${server}`}
      icon={<FileDiff className="warn" />}
      title={`${server}: ${plural(tools.length, "definition")} pending approval`}
      text={tools.map((each) => `${each.tool} (${each.kind})`).join(", ")}
      link={{ to: "/servers/$id", params: { id: server }, search: { tab: "pending" } }}
    />
  ));
  if (waiting > pending.length) {
    lines.push(<Line key="wait" icon={<FileDiff className="warn" />} title={`${plural(waiting - pending.length, "more definition")} pending approval`} link={{ to: "/servers" }} />);
  }
  return lines;
}

function problemLines(data: Overview): ReactNode[] {
  const problems = otherProblems(data);
  if (problems === 0) return [];
  return [<Line key="problems" icon={<CircleAlert className="warn" />} title={plural(problems, "problem")} text="In the configuration, scripts or tool definitions." link={{ to: "/problems" }} />];
}

type LineProps = { icon: ReactNode; title: string; text?: string; link?: Pick<LinkProps, "to" | "params" | "search"> };

function Line({ icon, title, text, link }: LineProps) {
  const inside = (
    <>
      <span className="Overview-icon" aria-hidden="true">{icon}</span>
      <span className="grow">
        <span className="Overview-line-title cut" title={title}>{title}</span>
        {text && <span className="Overview-line-text cut" title={text}>{text}</span>}
      </span>
      {link && <ChevronRight aria-hidden="true" className="Overview-go" />}
    </>
  );
  return <li>{link ? <Link {...link} className="Overview-line">{inside}</Link> : <div className="Overview-line">{inside}</div>}</li>;
}
