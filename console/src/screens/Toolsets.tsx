import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Layers, Plus } from "lucide-react";
import { useState } from "react";
import { queries } from "../api/queries";
import type { Toolset } from "../api/types";
import { Badge } from "../components/Badge";
import { Button } from "../components/Button";
import { Card } from "../components/Card";
import { Code } from "../components/Code";
import { TextField } from "../components/Field";
import { Page } from "../components/Page";
import { EmptyState } from "../components/States";
import { type Column, Table } from "../components/Table";
import { Tabs } from "../components/Tabs";
import { count } from "../format";
import { ReadOnlyNote, useCanEdit } from "./toolset/Editable";
import { History } from "./toolset/History";
import { NewToolset } from "./toolset/NewToolset";
import { summarize, selectionOf } from "./toolset/selection";
import "./Toolsets.css";

/** All toolsets, and the history of edits. */
export default function Toolsets() {
  const { tab = "toolsets" } = useSearch({ from: "/toolsets" });
  const navigate = useNavigate({ from: "/toolsets" });
  const list = useQuery(queries.toolsets());
  const mayEdit = useCanEdit("toolsets");
  const [creating, setCreating] = useState(false);
  const create = mayEdit && <Button variant="primary" icon={<Plus aria-hidden="true" />} onClick={() => setCreating(true)}>New toolset</Button>;
  const tabs = [
    { id: "toolsets", label: "Toolsets", content: <List list={list} action={create} /> },
    { id: "history", label: "History", content: <History /> },
  ];
  return (
    <Page title="Toolsets" description="Named selections from the catalog. A gate with a toolset offers only the tools in it." actions={create}>
      <ReadOnlyNote part="toolsets" />
      <Tabs label="Toolsets" tabs={tabs} value={tab === "history" ? tab : "toolsets"} onChange={(next) => void navigate({ search: { tab: next === "toolsets" ? undefined : next }, })} />
      {creating && <NewToolset open onClose={() => setCreating(false)} names={list.data?.toolsets.map((set) => set.name) ?? []} />}
    </Page>
  );
}

type ListProps = { list: { data: { toolsets: Toolset[] } | undefined; error: unknown; refetch: () => unknown }; action: React.ReactNode };

function List({ list: { data, error, refetch }, action }: ListProps) {
  const { q = "" } = useSearch({ from: "/toolsets" });
  const navigate = useNavigate({ from: "/toolsets" });
  const found = data?.toolsets.filter((set) => set.name.includes(q.toLowerCase()));
  const many = (data?.toolsets.length ?? 0) > 8;
  return (
    <div className="stack">
      {many && (
        <div className="Toolsets-search">
          <TextField label="Find a toolset" labelHidden type="search" placeholder="Find by name" value={q} onChange={(next) => void navigate({ search: (old) => ({ ...old, q: next || undefined }), replace: true })} />
        </div>
      )}
      <Card flush>
        <Table
          label="Toolsets"
          columns={columns}
          rows={found}
          rowKey={(set) => set.name}
          rowLink={(set) => ({ to: "/toolsets/$name", params: { name: set.name } })}
          error={error}
          onRetry={() => void refetch()}
          empty={data?.toolsets.length === 0 ? <NoToolsets action={action} /> : <EmptyState icon={<Layers />} title="No matching toolsets" />}
        />
      </Card>
    </div>
  );
}

const columns: Column<Toolset>[] = [
  { id: "name", header: "Toolset", min: 160, grow: 2, value: (set) => set.name, cell: (set) => <span className="cut" title={set.name}>{set.name}</span> },
  { id: "contents", header: "Contents", min: 180, grow: 3, drop: 2, cell: (set) => <span className="cut soft" title={summarize(selectionOf(set), 40)}>{summarize(selectionOf(set))}</span> },
  { id: "count", header: "Tools", min: 84, align: "right", value: (set) => set.count, cell: (set) => count(set.count) },
  { id: "gates", header: "Used by", min: 160, grow: 2, drop: 1, value: (set) => set.gates.length, cell: (set) => <GatesOf set={set} /> },
  { id: "from", header: "Defined in", min: 116, drop: 3, value: (set) => set.from, cell: ({ from }) => <From from={from} /> },
];

function GatesOf({ set }: { set: Toolset }) {
  if (set.gates.length === 0) return <span className="faint">no gate</span>;
  return (
    <span className="Toolsets-gates" title={set.gates.join(", ")}>
      {set.gates.slice(0, 3).map((gate) => <Link key={gate} to="/gates" search={{ gate }}><Badge>{gate}</Badge></Link>)}
      {set.gates.length > 3 && <span className="faint small">+{set.gates.length - 3}</span>}
    </span>
  );
}

function From({ from }: { from: string }) {
  return from === "api" ? <Badge tone="info" title="Edited in the console or through the API. The edit overrides the file.">edited</Badge> : <span className="soft">{from}</span>;
}

const snippet = `toolsets:
  support:
    tools: [lookup_order]            # local tools
    servers:
      - jira                         # all its tools
      - {id: github, tools: [search_issues]}
gates:
  support: {mode: read, toolset: support}`;

function NoToolsets({ action }: { action: React.ReactNode }) {
  return (
    <EmptyState icon={<Layers />} title="No toolsets yet" action={action}>
      <div className="stack-s">
        <p>Without one, a gate offers every tool that its mode allows. Create one here, or in <code>toolyard.yaml</code>:</p>
        <div className="Toolsets-snippet"><Code text={snippet} label="A toolset in toolyard.yaml" /></div>
      </div>
    </EmptyState>
  );
}
