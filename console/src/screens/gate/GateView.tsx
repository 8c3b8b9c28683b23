import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { CircleAlert, Pencil } from "lucide-react";
import { type ReactNode, useState } from "react";
import { removeGate } from "../../api/actions";
import { queries } from "../../api/queries";
import type { GateDetail, Gates } from "../../api/types";
import { Badge } from "../../components/Badge";
import { Button } from "../../components/Button";
import { CopyButton } from "../../components/Code";
import { Confirm } from "../../components/Dialog";
import { Page } from "../../components/Page";
import { ErrorState, Skeleton } from "../../components/States";
import { Tabs } from "../../components/Tabs";
import { toast } from "../../components/Toast";
import { count, plural } from "../../format";
import { ReadOnlyNote, useCanEdit } from "../toolset/Editable";
import { ExportDialog, isFormat } from "../toolset/ExportDialog";
import { ExportMenu } from "../toolset/ExportMenu";
import { Connect } from "./Connect";
import { GateForm } from "./GateForm";
import { GateTools } from "./GateTools";
import { choices } from "./terms";

/** One gate: settings, tools, and how to connect. */
export function GateView({ name, list }: { name: string; list: Gates | undefined }) {
  const { data, error, refetch } = useQuery(queries.gate(name));
  const { tab, format } = useSearch({ from: "/gates" });
  const navigate = useNavigate({ from: "/gates" });
  const go = (search: { tab?: string; format?: string }) => void navigate({ search: { gate: name, ...search } });
  const tabs = data && [
    { id: "tools", label: "Tools", count: data.tools, content: <GateTools gate={data} /> },
    { id: "connect", label: "Connect", content: <Connect gate={data} /> },
  ];
  return (
    <Page
      title={name}
      above={<Link to="/gates">Gates</Link>}
      beside={data && <From from={data.from} />}
      actions={data && <><ExportMenu onChoose={(next) => go({ tab, format: next })} /><Editing gate={data} list={list} /></>}
    >
      {tabs ? (
        <>
          <Facts gate={data} />
          {data.problems > 0 && <p className="Gates-problems"><CircleAlert aria-hidden="true" /><span>{plural(data.problems, "problem")} at this gate. <Link to="/problems" search={{ q: name }}>View problems</Link></span></p>}
          <Tabs label="Gate" tabs={tabs} value={tab === "connect" ? tab : "tools"} onChange={(next) => go({ tab: next === "tools" ? undefined : next })} />
          {isFormat(format) && <ExportDialog of={{ gate: name }} format={format} onFormat={(next) => go({ tab, format: next })} onClose={() => go({ tab })} />}
        </>
      ) : error ? (
        <ErrorState error={error} onRetry={() => void refetch()} />
      ) : (
        <Skeleton lines={8} />
      )}
    </Page>
  );
}

const originLabels: Record<string, string> = { file: "from file", program: "from program" };

function From({ from }: { from: string }) {
  if (from === "api") return <Badge tone="info" title="The edit overrides the file.">edited</Badge>;
  return <Badge>{originLabels[from] ?? from}</Badge>;
}

function Facts({ gate }: { gate: GateDetail }) {
  return (
    <>
      <ReadOnlyNote part="gates" />
      <dl className="Gates-facts">
        <Fact name="Path"><span className="row"><code className="cut" title={gate.path}>{gate.path}</code><CopyButton text={location.origin + gate.path} label="Copy URL" /></span></Fact>
        <Fact name="Mode">{gate.mode}</Fact>
        <Fact name="Surface">{gate.surface}</Fact>
        <Fact name="Toolset">{gate.toolset ? <Link to="/toolsets/$name" params={{ name: gate.toolset }}>{gate.toolset}</Link> : "all tools"}</Fact>
        <Fact name="Callers">{choices.callers.find((each) => each.value === gate.callers)?.label.toLowerCase()}</Fact>
        <Fact name="Naming">{gate.naming}</Fact>
        <Fact name="Errors">{gate.errors === "protocol" ? "JSON-RPC errors" : "as results"}</Fact>
        <Fact name="Offer">{gate.offer === "search" ? "a search" : gate.offer === "code" ? "code" : "every tool"}</Fact>
        {gate.pinned && gate.pinned.length > 0 && <Fact name="Pinned">{gate.pinned.join(", ")}</Fact>}
        {gate.show && <Fact name="Size limit for results">{gate.show}</Fact>}
        <Fact name="Tokens">{count(gate.tokens)}</Fact>
      </dl>
    </>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd className="cut">{children}</dd>
    </div>
  );
}

/** The buttons to edit a gate. Gates defined by the embedding program cannot be edited. */
function Editing({ gate, list }: { gate: GateDetail; list: Gates | undefined }) {
  const mayEdit = useCanEdit("gates");
  const [open, setOpen] = useState<"edit" | "remove">();
  const client = useQueryClient();
  const navigate = useNavigate({ from: "/gates" });
  if (!mayEdit || !list || gate.from === "program") return null;
  const remove = async () => {
    try {
      await removeGate(gate.name, list.version);
      const { gates } = await client.fetchQuery({ ...queries.gates(), staleTime: 0 });
      const there = gates.some((each) => each.name === gate.name);
      toast.good(there ? `Reverted ${gate.name} to the version in the file.` : `Removed ${gate.name}: the file does not define it.`);
      if (!there) await navigate({ search: {} });
    } finally {
      await Promise.all(["gates", "toolsets", "edits", "tools", "overview"].map((key) => client.invalidateQueries({ queryKey: [key] })));
    }
  };
  return (
    <>
      {gate.from === "api" && <Button variant="danger" onClick={() => setOpen("remove")}>Revert to file</Button>}
      <Button icon={<Pencil aria-hidden="true" />} onClick={() => setOpen("edit")}>Edit</Button>
      {open === "edit" && <GateForm list={list} gate={list.gates.find((each) => each.name === gate.name) ?? gate} onClose={() => setOpen(undefined)} />}
      <Confirm open={open === "remove"} onClose={() => setOpen(undefined)} title={`Revert ${gate.name} to the version in the file?`} action="Revert" danger onConfirm={remove}>
        <p>The definition in the configuration file takes effect immediately. If the file does not define this gate, it is removed and callers at {gate.path} are refused.</p>
        <p className="soft">The edit stays in the history and can be restored.</p>
      </Confirm>
    </>
  );
}
