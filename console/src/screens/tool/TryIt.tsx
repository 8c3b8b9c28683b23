import { useQuery } from "@tanstack/react-query";
import { Play } from "lucide-react";
import { type FormEvent, type KeyboardEvent, useMemo, useRef, useState } from "react";
import { queries } from "../../api/queries";
import type { JsonObject, ToolAt, ToolDetail } from "../../api/types";
import { Button } from "../../components/Button";
import { Card } from "../../components/Card";
import { Confirm } from "../../components/Dialog";
import { TextField } from "../../components/Field";
import { Select } from "../../components/Select";
import { EmptyState } from "../../components/States";
import { plural, price } from "../../format";
import { Arguments } from "./Arguments";
import { check, type Fault } from "./check";
import { formSchema, NoForm } from "./formSchema";
import { Outcome, Running } from "./Outcome";
import { TriedList } from "./TriedList";
import { useTrial } from "./useTrial";
import "./TryIt.css";

/** Calls the tool through a gate that shows it, as an agent would. */
export function TryIt({ tool, startGate }: { tool: ToolDetail; startGate: string | undefined }) {
  const open = tool.at.filter((at) => at.visible);
  if (open.length === 0) {
    return (
      <EmptyState title="No gate shows this tool">
        It can be called once a gate shows it. “Who sees it” says, gate by gate, what stops it and what to do.
      </EmptyState>
    );
  }
  return <Trying tool={tool} open={open} startGate={startGate} />;
}

/** The form of a schema, or why there is none. */
function prepare(schema: JsonObject): { form?: JsonObject; reason?: string } {
  try {
    return { form: formSchema(schema) };
  } catch (cause) {
    return { reason: cause instanceof NoForm ? cause.message : "The schema is not one that a form can show." };
  }
}

const noSchema: JsonObject = { type: "object" };

function Trying({ tool, open, startGate }: { tool: ToolDetail; open: ToolAt[]; startGate: string | undefined }) {
  const schema = tool.inputSchema ?? noSchema;
  const prepared = useMemo(() => prepare(schema), [schema]);
  const trial = useTrial(tool.server ?? "-", tool.name);
  const [args, setArgs] = useState<JsonObject>({});
  const [readable, setReadable] = useState(true);
  const [faults, setFaults] = useState<Fault[]>([]);
  const [own, setOwn] = useState(false); // the faults were found here, not by the yard
  const [gate, setGate] = useState(open.find((at) => at.gate === startGate)?.gate ?? open[0]?.gate ?? "");
  const [more, setMore] = useState({ idempotencyKey: "", session: "" });
  const [asks, setAsks] = useState(false);
  const at = open.find((each) => each.gate === gate) ?? open[0];
  const writes = useWrites(gate) && tool.mode === "write";
  const side = useRef<HTMLDivElement>(null);

  const change = (next: JsonObject | undefined) => {
    setReadable(next !== undefined);
    if (!next) return;
    setArgs(next);
    if (own && faults.length > 0) setFaults(check(schema, next));
  };
  const send = async () => {
    if (!at) return;
    setFaults([]);
    side.current?.scrollIntoView({ block: "nearest" });
    const found = await trial.run({ tool: at.name, gate: at.gate, args, ...filled(more) });
    setFaults(found);
    setOwn(false);
  };
  const run = (anyway: boolean) => {
    if (!readable || trial.since !== undefined) return;
    const found = prepared.form && !anyway ? check(schema, args) : [];
    setFaults(found);
    setOwn(true);
    if (found.length > 0) return;
    if (writes) setAsks(true);
    else void send();
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    run(false);
  };
  const press = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    run(false);
  };
  return (
    <div className="TryIt">
      <form className="TryIt-form" noValidate onSubmit={submit} onKeyDown={press}>
        <Card title="Arguments">
          <Arguments key={tool.name} prepared={prepared} args={args} faults={faults} onChange={change} />
          <div className="TryIt-foot">
            <GateChoice open={open} gate={gate} onChange={setGate} />
            <MoreFields value={more} onChange={setMore} />
            <div className="row-wrap">
              <Button type="submit" variant="primary" icon={<Play />} busy={trial.since !== undefined} disabled={!readable}>Run</Button>
              <span className="soft small">{price(tool.priceUsd) === "free" ? "free of charge" : `${price(tool.priceUsd)} for a call that succeeds`}</span>
              {own && faults.length > 0 && <Unfit faults={faults} onAnyway={() => run(true)} />}
            </div>
          </div>
        </Card>
      </form>
      <div className="TryIt-side stack" ref={side}>
        <Card title="Result">
          {trial.since !== undefined ? <Running since={trial.since} onCancel={trial.cancel} /> : <Outcome outcome={trial.outcome} />}
        </Card>
        <TriedList tried={trial.tried} onTake={(tried) => {
          change(tried.args);
          setFaults([]);
          if (open.some((each) => each.gate === tried.gate)) setGate(tried.gate);
        }} />
      </div>
      <Confirm open={asks} onClose={() => setAsks(false)} title={`Run ${tool.name}?`} action="Run it" onConfirm={async () => void send()}>
        <p>It is not known to only read, and the gate <strong>{gate}</strong> lets tools change things. What it does is real.</p>
      </Confirm>
    </div>
  );
}

/** Whether tools may change something through a gate. */
function useWrites(gate: string): boolean {
  const gates = useQuery(queries.gates());
  return (gates.data?.gates.find((each) => each.name === gate)?.mode ?? "write") !== "read";
}

type More = { idempotencyKey: string; session: string };

function filled({ idempotencyKey, session }: More): Partial<More> {
  return { ...(idempotencyKey.trim() && { idempotencyKey: idempotencyKey.trim() }), ...(session.trim() && { session: session.trim() }) };
}

function Unfit({ faults, onAnyway }: { faults: Fault[]; onAnyway: () => void }) {
  return (
    <span className="row-wrap" role="alert">
      <span className="bad small">{plural(faults.length, "value")} not as the schema asks</span>
      <Button size="s" variant="quiet" onClick={onAnyway}>Send anyway</Button>
    </span>
  );
}

function GateChoice({ open, gate, onChange }: { open: ToolAt[]; gate: string; onChange: (gate: string) => void }) {
  const gates = useQuery(queries.gates());
  const mode = (name: string) => gates.data?.gates.find((each) => each.name === name)?.mode;
  const items = open.map((at) => ({ value: at.gate, label: mode(at.gate) === "write" ? `${at.gate} (write)` : at.gate }));
  const name = open.find((at) => at.gate === gate)?.name;
  return <Select label="Through the gate" value={gate} items={items} onChange={onChange} hint={`where it is called ${name ?? ""}`} />;
}

function MoreFields({ value, onChange }: { value: More; onChange: (value: More) => void }) {
  return (
    <details className="TryIt-more">
      <summary>More</summary>
      <div className="stack-s">
        <TextField label="Idempotency key" mono maxLength={255} hint="A call with the same key runs once; the answer is given again." value={value.idempotencyKey} onChange={(idempotencyKey) => onChange({ ...value, idempotencyKey })} />
        <TextField label="Session" mono maxLength={255} hint="The session that pays; without one, your account." value={value.session} onChange={(session) => onChange({ ...value, session })} />
      </div>
    </details>
  );
}
