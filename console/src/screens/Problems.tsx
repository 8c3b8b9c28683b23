import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { CircleCheck, X } from "lucide-react";
import { queries } from "../api/queries";
import type { Problem } from "../api/types";
import { Button } from "../components/Button";
import { Card } from "../components/Card";
import { Page } from "../components/Page";
import { ProblemCard } from "../components/ProblemCard";
import { EmptyState, ErrorState, Skeleton } from "../components/States";
import { plural } from "../format";

const maxPerSource = 100; // a server can have thousands of problems

/** Problems, grouped by source. */
export default function Problems() {
  const { data, error, refetch } = useQuery(queries.problems());
  const { q = "" } = useSearch({ from: "/problems" });
  return (
    <Page title="Problems" description="Problems that need attention in the configuration, scripts and server definitions.">
      <Filter q={q} />
      {data ? <Groups problems={data.problems.filter((problem) => matches(problem, q))} filtered={q !== ""} /> : error ? <ErrorState error={error} onRetry={() => void refetch()} /> : <Skeleton lines={5} />}
    </Page>
  );
}

/** The active filter, set by links from other pages, with a button to remove it. */
function Filter({ q }: { q: string }) {
  const navigate = useNavigate({ from: "/problems" });
  if (q === "") return null;
  return <div><Button icon={<X />} onClick={() => void navigate({ search: {} })}>{q}</Button></div>;
}

function matches({ source, subject, tool, file, message }: Problem, q: string): boolean {
  return [source, subject, tool, file, message].some((text) => text?.toLowerCase().includes(q.toLowerCase()));
}

function Groups({ problems, filtered }: { problems: Problem[]; filtered: boolean }) {
  if (problems.length === 0 && filtered) return <EmptyState icon={<CircleCheck />} title="No matching problems" />;
  if (problems.length === 0) {
    return (
      <EmptyState icon={<CircleCheck />} title="No problems">
        The configuration, scripts and server definitions are valid.
      </EmptyState>
    );
  }
  const groups = [...Map.groupBy(problems, (problem) => problem.source ?? "")].sort(([a], [b]) => a.localeCompare(b));
  return groups.map(([source, list]) => (
    <Card key={source} flush title={source === "" ? "Configuration" : source} description={plural(list.length, "problem")} actions={<SourceLink source={source} problems={list} />}>
      {list.slice(0, maxPerSource).map((problem, i) => (
        <ProblemCard key={i} problem={problem} />
      ))}
      {list.length > maxPerSource && <p className="ProblemCard faint">{plural(list.length - maxPerSource, "more problem")} not shown.</p>}
    </Card>
  ));
}

/** A link to the server, unless the problems are in local files. */
function SourceLink({ source, problems }: { source: string; problems: Problem[] }) {
  if (source.startsWith("pack ")) return <Link to="/packs">Open packs</Link>;
  if (source === "" || problems.some((problem) => problem.file)) return null;
  return <Link to="/servers/$id" params={{ id: source }}>Open server</Link>;
}
