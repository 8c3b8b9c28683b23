import { Link } from "@tanstack/react-router";
import { Wrench } from "lucide-react";
import { useMemo, useState } from "react";
import type { GateDetail, GateTool } from "../../api/types";
import { Badge } from "../../components/Badge";
import { Card } from "../../components/Card";
import { HBars } from "../../components/charts";
import { TextField } from "../../components/Field";
import { EmptyState } from "../../components/States";
import { type Column, Table } from "../../components/Table";
import { count, percent, plural, shortCount } from "../../format";

const maxBars = 10;

/** A gate's tools and its largest definitions. */
export function GateTools({ gate }: { gate: GateDetail }) {
  const [text, setText] = useState("");
  const found = useMemo(() => {
    const words = text.toLowerCase();
    return gate.toolList.filter((tool) => `${tool.name} ${tool.server ?? ""}`.toLowerCase().includes(words));
  }, [gate.toolList, text]);
  const columns = useMemo(() => columnsOf(gate.tokens), [gate.tokens]);
  if (gate.toolList.length === 0) return <NoTools gate={gate} />;
  return (
    <div className="stack">
      <Card title="Largest definitions" description={`${plural(gate.tools, "definition")}, about ${count(gate.tokens)} tokens in every prompt that includes them.`}>
        <HBars label="Largest definitions by tokens" bars={bars(gate.toolList)} />
      </Card>
      <div className="Gates-search">
        <TextField label="Find a tool" labelHidden type="search" placeholder="Find a tool at this gate" value={text} onChange={setText} />
      </div>
      <Card flush>
        <Table
          label={`Tools at ${gate.name}`}
          columns={columns}
          rows={found}
          rowKey={(tool) => tool.name}
          rowLink={(tool) => ({ to: "/tools/$source/$name", params: { source: tool.server ?? "-", name: tool.tool }, search: { gate: gate.name } })}
          sort={{ id: "tokens", desc: true }}
          empty={<EmptyState icon={<Wrench />} title="No matching tools" />}
        />
      </Card>
    </div>
  );
}

function bars(list: GateTool[]) {
  return list
    .toSorted((a, b) => b.tokens - a.tokens)
    .slice(0, maxBars)
    .map((tool) => ({ key: tool.name, name: tool.name, value: tool.tokens, text: `${shortCount(tool.tokens)} tokens`, link: { to: "/tools/$source/$name", params: { source: tool.server ?? "-", name: tool.tool } } as const }));
}

function columnsOf(all: number): Column<GateTool>[] {
  return [
    { id: "name", header: "Name at the gate", min: 200, grow: 2, value: (tool) => tool.name, cell: (tool) => <span className="mono cut" title={tool.name}>{tool.name}</span> },
    { id: "source", header: "Source", min: 120, grow: 1, drop: 1, value: (tool) => tool.server ?? "", cell: ({ server }) => (server ? <Link to="/servers/$id" params={{ id: server }} className="cut">{server}</Link> : <span className="soft">local</span>) },
    { id: "mode", header: "Mode", min: 80, value: (tool) => tool.mode, cell: ({ mode }) => <Badge tone={mode === "write" ? "warn" : "neutral"}>{mode}</Badge> },
    { id: "tokens", header: "Tokens", min: 92, align: "right", value: (tool) => tool.tokens, cell: ({ tokens }) => count(tokens) },
    { id: "share", header: "Share", min: 80, drop: 2, align: "right", cell: ({ tokens }) => <span className="soft">{percent(tokens, all)}</span> },
  ];
}

function NoTools({ gate }: { gate: GateDetail }) {
  return (
    <Card>
      <EmptyState icon={<Wrench />} title="This gate offers no tools">
        {gate.toolset ? <>No tool in the toolset <Link to="/toolsets/$name" params={{ name: gate.toolset }}>{gate.toolset}</Link> matches the gate's mode and surface, or none is currently available.</> : "No tool matches its mode and surface."}
      </EmptyState>
    </Card>
  );
}
