import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { ShieldAlert } from "lucide-react";
import { queries } from "../api/queries";
import type { ToolDetail } from "../api/types";
import { Badge, Status } from "../components/Badge";
import { Card } from "../components/Card";
import { CopyButton } from "../components/Code";
import { JsonView } from "../components/JsonView";
import { Page } from "../components/Page";
import { ProblemCard } from "../components/ProblemCard";
import { EmptyState, ErrorState, Skeleton } from "../components/States";
import { Tabs } from "../components/Tabs";
import { plural } from "../format";
import { visible } from "../format/visible";
import { Description } from "./tool/Description";
import { Facts } from "./tool/Facts";
import { RecentCalls } from "./tool/RecentCalls";
import { Schemas } from "./tool/Schemas";
import { TryIt } from "./tool/TryIt";
import { Visibility } from "./tool/Visibility";
import "./Tool.css";

/** One tool: metadata, visibility, recent calls, and a form to run it. */
export default function Tool() {
  const { source, name } = useParams({ from: "/tools/$source/$name" });
  const { data: tool, error, refetch } = useQuery(queries.tool(source, name));
  if (!tool) {
    return (
      <Page title={visible(name)} above={<Above source={source} />}>
        {error ? <ErrorState error={error} onRetry={() => void refetch()} /> : <Skeleton lines={6} />}
      </Page>
    );
  }
  return <ToolPage key={`${source}/${name}`} tool={tool} source={source} />;
}

function Above({ source }: { source: string }) {
  return (
    <>
      <Link to="/catalog">Catalog</Link> / {source === "-" ? <Link to="/catalog" search={{ source: "-" }}>local</Link> : <Link to="/catalog" search={{ source }}>{source}</Link>}
    </>
  );
}

function ToolPage({ tool, source }: { tool: ToolDetail; source: string }) {
  return (
    <Page title={visible(tool.title || tool.name)} above={<Above source={source} />} beside={<Badges tool={tool} />}>
      <div className="Tool-top">
        {tool.title && <p className="Tool-name"><code className="wrap-anywhere">{visible(tool.name)}</code><CopyButton text={tool.name} label="Copy name" /></p>}
        {!tool.withheld && <Description text={tool.description} />}
      </div>
      {tool.withheld && <Withheld tool={tool} />}
      <ToolProblems tool={tool} />
      {!tool.withheld && <Facts tool={tool} />}
      <ToolTabs tool={tool} />
    </Page>
  );
}

function Badges({ tool }: { tool: ToolDetail }) {
  return (
    <>
      {!tool.title && <CopyButton text={tool.name} label="Copy name" />}
      {!tool.withheld && <Badge tone={tool.mode === "write" ? "warn" : "neutral"}>{tool.mode}</Badge>}
      {tool.withheld && <Badge tone="bad">withheld</Badge>}
      {tool.down && <Status tone="bad">Server down</Status>}
    </>
  );
}

/** Shown instead of a definition that is not approved. */
function Withheld({ tool }: { tool: ToolDetail }) {
  const why = tool.visibility[0]?.steps.find((step) => step.stops);
  return (
    <div className="Tool-withheld" role="note">
      <ShieldAlert aria-hidden="true" />
      <div className="grow stack-s">
        <p><strong>This tool is withheld:</strong> {why ? visible(why.text) : "its definition is not approved"}. No gate offers it.</p>
        <div>
          <Link to="/servers/$id" params={{ id: tool.server ?? "-" }} search={{ tab: "pending", tool: tool.name }} className="Button Button-plain Button-s">Review definition</Link>
        </div>
      </div>
    </div>
  );
}

function ToolProblems({ tool }: { tool: ToolDetail }) {
  const list = tool.problemList ?? [];
  if (list.length === 0) return null;
  return (
    <Card flush title={plural(list.length, "problem")}>
      {list.map((problem, i) => (
        <ProblemCard key={i} problem={problem} />
      ))}
    </Card>
  );
}

function ToolTabs({ tool }: { tool: ToolDetail }) {
  const search = useSearch({ from: "/tools/$source/$name" });
  const navigate = useNavigate({ from: "/tools/$source/$name" });
  const shownBy = tool.visibility.filter((at) => at.visible).length;
  const who = { id: "who", label: "Visibility", count: shownBy, content: <Visibility at={tool.visibility} /> };
  const calls = { id: "calls", label: "Calls", content: <RecentCalls tool={tool} /> };
  const tabs = tool.withheld
    ? [who, calls]
    : [
        { id: "try", label: "Try it", content: <TryIt tool={tool} startGate={search.gate} />, keep: true },
        { id: "schema", label: "Schema", content: <Schemas input={tool.inputSchema} output={tool.outputSchema} /> },
        who,
        calls,
        { id: "declared", label: "Metadata", content: <Declared tool={tool} /> },
      ];
  const value = tabs.some((tab) => tab.id === search.tab) ? search.tab : tabs[0]?.id;
  return <Tabs label="Tool" tabs={tabs} value={value ?? "who"} onChange={(tab) => void navigate({ search: (old) => ({ ...old, tab }) })} />;
}

function Declared({ tool }: { tool: ToolDetail }) {
  if (!tool.meta || Object.keys(tool.meta).length === 0) return <EmptyState title="No further metadata">Prices, limits and other metadata that the tool declares appear here.</EmptyState>;
  return (
    <Card title="Declared metadata" description="As declared by the tool. The configuration may override it; the effective values are shown above.">
      <JsonView value={tool.meta} label="Declared metadata" open={3} />
    </Card>
  );
}
