import { Link, type LinkProps } from "@tanstack/react-router";
import { ChevronRight, CircleAlert, CircleCheck, Database, FileDiff, ServerOff } from "lucide-react";
import type { ReactNode } from "react";
import type { Overview } from "../api/types";
import { Card } from "../components/Card";
import { EmptyState } from "../components/States";
import { plural } from "../format";
import { storeDown } from "../health";

/** What needs a person, each line a link to where it can be done. */
export function Attention({ data }: { data: Overview }) {
  const lines = [...outages(data), ...approvals(data), ...faults(data)];
  return (
    <Card title="Needs a person" flush={lines.length > 0}>
      {lines.length > 0 ? (
        <ul className="Overview-list">{lines}</ul>
      ) : (
        <EmptyState icon={<CircleCheck />} title="Nothing needs you">
          No definition waits, no server is down, and nothing is wrong in the configuration.
        </EmptyState>
      )}
    </Card>
  );
}

function outages(data: Overview): ReactNode[] {
  const { store, servers } = data;
  const lines: ReactNode[] = [];
  if (storeDown(data)) {
    lines.push(<Line key="store" icon={<Database className="bad" />} title="The store cannot be reached" text={`${store.kind}: records and limits wait for it.`} />);
  }
  if (servers.down > 0) {
    lines.push(
      <Line key="down" icon={<ServerOff className="bad" />} title={`${plural(servers.down, "server")} down`} text="Their tools cannot be called now." link={{ to: "/servers", search: { state: "down" } }} />,
    );
  }
  return lines;
}

/** Definitions that wait, one line for each server. */
function approvals({ pending, waiting }: Overview): ReactNode[] {
  const byServer = Map.groupBy(pending, (each) => each.server);
  const lines = [...byServer].map(([server, tools]) => (
    <Line
      key={`wait ${server}`}
      icon={<FileDiff className="warn" />}
      title={`${server}: ${plural(tools.length, "definition waits", "definitions wait")} for approval`}
      text={tools.map((each) => `${each.tool} (${each.kind})`).join(", ")}
      link={{ to: "/servers/$id", params: { id: server }, search: { tab: "pending" } }}
    />
  ));
  if (waiting > pending.length) {
    lines.push(<Line key="wait" icon={<FileDiff className="warn" />} title={`${plural(waiting - pending.length, "more definition waits", "more definitions wait")}`} link={{ to: "/servers" }} />);
  }
  return lines;
}

function faults({ problems }: Overview): ReactNode[] {
  if (problems === 0) return [];
  return [<Line key="problems" icon={<CircleAlert className="warn" />} title={plural(problems, "problem")} text="In definitions, scripts or the configuration." link={{ to: "/problems" }} />];
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
