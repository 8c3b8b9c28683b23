import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { DoorOpen, Plus } from "lucide-react";
import { useState } from "react";
import { queries } from "../api/queries";
import type { Gate } from "../api/types";
import { Badge } from "../components/Badge";
import { Button } from "../components/Button";
import { Card } from "../components/Card";
import { Code, CopyButton } from "../components/Code";
import { TextField } from "../components/Field";
import { Page } from "../components/Page";
import { EmptyState } from "../components/States";
import { type Column, Table } from "../components/Table";
import { count } from "../format";
import { GateForm } from "./gate/GateForm";
import { GateView } from "./gate/GateView";
import { ReadOnlyNote, useCanEdit } from "./toolset/Editable";
import "./Gates.css";

/** All gates, or the gate in the URL. */
export default function Gates() {
  const { gate } = useSearch({ from: "/gates" });
  const list = useQuery(queries.gates());
  if (gate) return <GateView key={gate} name={gate} list={list.data} />;
  return <GateList list={list} />;
}

function GateList({ list: { data, error, refetch } }: { list: { data: { gates: Gate[]; version: number; editable: boolean } | undefined; error: unknown; refetch: () => unknown } }) {
  const { q = "" } = useSearch({ from: "/gates" });
  const navigate = useNavigate({ from: "/gates" });
  const mayEdit = useCanEdit("gates");
  const [creating, setCreating] = useState(false);
  const found = data?.gates.filter((gate) => `${gate.name} ${gate.toolset ?? ""}`.includes(q.toLowerCase()));
  const create = mayEdit && <Button variant="primary" icon={<Plus aria-hidden="true" />} disabled={!data} onClick={() => setCreating(true)}>New gate</Button>;
  return (
    <Page title="Gates" description="Entry points for agents. Each has its own URL, toolset, mode and access rules." actions={create}>
      <ReadOnlyNote part="gates" />
      {(data?.gates.length ?? 0) > 8 && (
        <div className="Gates-search">
          <TextField label="Find a gate" labelHidden type="search" placeholder="Find by name or toolset" value={q} onChange={(next) => void navigate({ search: (old) => ({ ...old, q: next || undefined }), replace: true })} />
        </div>
      )}
      <Card flush>
        <Table
          label="Gates"
          columns={columns}
          rows={found}
          rowKey={(gate) => gate.name}
          rowLink={(gate) => ({ to: "/gates", search: { gate: gate.name } })}
          error={error}
          onRetry={() => void refetch()}
          empty={data?.gates.length === 0 ? <NoGates action={create} /> : <EmptyState icon={<DoorOpen />} title="No matching gates" />}
        />
      </Card>
      {creating && data && <GateForm list={data} gate={undefined} onClose={() => setCreating(false)} />}
    </Page>
  );
}

const columns: Column<Gate>[] = [
  { id: "name", header: "Gate", min: 150, grow: 2, value: (gate) => gate.name, cell: (gate) => <Name gate={gate} /> },
  { id: "path", header: "Path", min: 150, grow: 2, drop: 3, cell: (gate) => <span className="row"><code className="cut soft" title={gate.path}>{gate.path}</code><CopyButton text={location.origin + gate.path} label={`Copy the URL of ${gate.name}`} /></span> },
  { id: "mode", header: "Mode", min: 76, value: (gate) => gate.mode, cell: ({ mode }) => <Badge tone={mode === "write" ? "warn" : "neutral"}>{mode}</Badge> },
  { id: "surface", header: "Surface", min: 92, drop: 5, value: (gate) => gate.surface, cell: (gate) => <span className="soft">{gate.surface}</span> },
  { id: "toolset", header: "Toolset", min: 130, grow: 2, drop: 2, value: (gate) => gate.toolset ?? "", cell: ({ toolset }) => (toolset ? <Link to="/toolsets/$name" params={{ name: toolset }} className="cut" title={toolset}>{toolset}</Link> : <span className="faint">all tools</span>) },
  { id: "callers", header: "Callers", min: 88, drop: 1, value: (gate) => gate.callers, cell: ({ callers }) => <span className="soft">{callers}</span> },
  { id: "tools", header: "Tools", min: 80, align: "right", value: (gate) => gate.tools, cell: (gate) => count(gate.tools) },
  { id: "tokens", header: "Tokens", min: 96, drop: 4, align: "right", value: (gate) => gate.tokens, cell: (gate) => count(gate.tokens) },
  { id: "problems", header: "Problems", min: 108, align: "right", value: (gate) => gate.problems, cell: ({ problems }) => <span className={problems > 0 ? "bad" : "faint"}>{count(problems)}</span> },
];

function Name({ gate }: { gate: Gate }) {
  return (
    <span className="row">
      <span className="cut" title={gate.name}>{gate.name}</span>
      {gate.from === "api" && <Badge tone="info" title="The edit overrides the file.">edited</Badge>}
    </span>
  );
}

const snippet = `gates:
  support: {mode: read, callers: keys}`;

function NoGates({ action }: { action: React.ReactNode }) {
  return (
    <EmptyState icon={<DoorOpen />} title="No gates yet" action={action}>
      <div className="stack-s">
        <p>Agents need a gate to connect. Create one here, or in <code>toolyard.yaml</code>:</p>
        <div className="Gates-snippet"><Code text={snippet} label="A gate in toolyard.yaml" /></div>
      </div>
    </EmptyState>
  );
}
