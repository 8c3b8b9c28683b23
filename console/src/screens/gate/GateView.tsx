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
import { ReadOnlyNote, useMayEdit } from "../toolset/Editable";
import { ExportDialog, isFormat } from "../toolset/ExportDialog";
import { ExportMenu } from "../toolset/ExportMenu";
import { Connect } from "./Connect";
import { GateForm } from "./GateForm";
import { GateTools } from "./GateTools";

/** One gate: what it says, what it shows, and how clients come to it. */
export function GateView({ name, list }: { name: string; list: Gates | undefined }) {
  const { data, error, refetch } = useQuery(queries.gate(name));
  const { tab, format } = useSearch({ from: "/gates" });
  const navigate = useNavigate({ from: "/gates" });
  const go = (search: { tab?: string; format?: string }) => void navigate({ search: { gate: name, ...search }, replace: true });
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
          {data.problems > 0 && <p className="Gates-problems"><CircleAlert aria-hidden="true" /><span>{plural(data.problems, "problem")} at this gate. <Link to="/problems" search={{ q: name }}>Read what to do</Link></span></p>}
          <Tabs label="Parts of the gate" tabs={tabs} value={tab === "connect" ? tab : "tools"} onChange={(next) => go({ tab: next === "tools" ? undefined : next })} />
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

const fromWords: Record<string, string> = { file: "from the file", program: "from the program" };

function From({ from }: { from: string }) {
  if (from === "api") return <Badge tone="info" title="This counts instead of what the file says.">edited</Badge>;
  return <Badge>{fromWords[from] ?? from}</Badge>;
}

function Facts({ gate }: { gate: GateDetail }) {
  return (
    <>
      <ReadOnlyNote part="gates" />
      <dl className="Gates-facts">
        <Fact name="Path"><span className="row"><code className="cut" title={gate.path}>{gate.path}</code><CopyButton text={location.origin + gate.path} label="Copy the address" /></span></Fact>
        <Fact name="Mode">{gate.mode}</Fact>
        <Fact name="Surface">{gate.surface}</Fact>
        <Fact name="Toolset">{gate.toolset ? <Link to="/toolsets/$name" params={{ name: gate.toolset }}>{gate.toolset}</Link> : "all tools"}</Fact>
        <Fact name="Callers">{gate.callers === "keys" ? "those with a key" : "anyone"}</Fact>
        <Fact name="Naming">{gate.naming}</Fact>
        <Fact name="Errors">{gate.errors === "protocol" ? "JSON-RPC errors" : "as results"}</Fact>
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

/** The buttons that change a gate. One that the program made itself is not the configuration's to change. */
function Editing({ gate, list }: { gate: GateDetail; list: Gates | undefined }) {
  const mayEdit = useMayEdit("gates");
  const [open, setOpen] = useState<"edit" | "remove">();
  const client = useQueryClient();
  const navigate = useNavigate({ from: "/gates" });
  if (!mayEdit || !list || gate.from === "program") return null;
  const remove = async () => {
    try {
      await removeGate(gate.name, list.version);
      const { gates } = await client.fetchQuery({ ...queries.gates(), staleTime: 0 });
      const there = gates.some((each) => each.name === gate.name);
      toast.good(there ? `The gate ${gate.name} is as the file has it.` : `The gate ${gate.name} is gone: the file does not have it.`);
      if (!there) await navigate({ search: {} });
    } finally {
      await Promise.all(["gates", "toolsets", "edits", "tools", "overview"].map((key) => client.invalidateQueries({ queryKey: [key] })));
    }
  };
  return (
    <>
      {gate.from === "api" && <Button variant="danger" onClick={() => setOpen("remove")}>As the file has it</Button>}
      <Button icon={<Pencil aria-hidden="true" />} onClick={() => setOpen("edit")}>Edit</Button>
      {open === "edit" && <GateForm list={list} gate={list.gates.find((each) => each.name === gate.name) ?? gate} onClose={() => setOpen(undefined)} />}
      <Confirm open={open === "remove"} onClose={() => setOpen(undefined)} title={`Take back the edits of ${gate.name}?`} action="Take back" danger onConfirm={remove}>
        <p>What the configuration file says of this gate counts again. If the file does not have it, the gate is gone, and callers at {gate.path} are turned away.</p>
        <p className="soft">The edit stays in the history, and can be restored from there.</p>
      </Confirm>
    </>
  );
}
