import { useQuery } from "@tanstack/react-query";
import { Lock, Play } from "lucide-react";
import { type FormEvent, type KeyboardEvent, type ReactNode, useMemo, useRef, useState } from "react";
import { isObject, type JsonObject } from "../../api/json";
import { queries } from "../../api/queries";
import type { CallRequest, Gate, ToolAt, ToolDetail } from "../../api/types";
import { Button } from "../../components/Button";
import { Card } from "../../components/Card";
import { Confirm } from "../../components/Dialog";
import { TextField } from "../../components/Field";
import { Select } from "../../components/Select";
import { EmptyState } from "../../components/States";
import { plural, price } from "../../format";
import { visible } from "../../format/visible";
import { takeForTool } from "../call/again";
import { Arguments, type Prepared } from "./Arguments";
import { check, type Fault } from "./check";
import { formSchema, NoForm } from "./formSchema";
import type { Tried } from "./history";
import { Outcome, Running } from "./Outcome";
import { Questions } from "./Questions";
import type { Attempt } from "./rounds";
import { TriedList } from "./TriedList";
import { type Trial, useTrial } from "./useTrial";
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
function prepare(schema: JsonObject): Prepared {
  try {
    return { form: formSchema(schema) };
  } catch (cause) {
    return { reason: cause instanceof NoForm ? cause.message : "The schema is not one that a form can show." };
  }
}

const noSchema: JsonObject = { type: "object" };

type Written = ReturnType<typeof useArguments>;

/** The arguments as they are written, and what is wrong with them. */
function useArguments(schema: JsonObject, checked: boolean, start: () => JsonObject) {
  const [args, setArgs] = useState(start);
  const [readable, setReadable] = useState(true);
  const [found, setFound] = useState<{ faults: Fault[]; here: boolean }>({ faults: [], here: true });
  return {
    args,
    readable,
    ...found,
    /** Takes arguments; undefined is a text that is no object yet. */
    change: (next: JsonObject | undefined) => {
      setReadable(next !== undefined);
      if (!next) return;
      setArgs(next);
      if (found.here && found.faults.length > 0) setFound({ faults: check(schema, next), here: true });
    },
    /** Checks them here, and says whether they are as the schema asks. */
    fit: () => {
      const faults = checked ? check(schema, args) : [];
      setFound({ faults, here: true });
      return faults.length === 0;
    },
    /** Shows what the yard found. */
    tell: (faults: Fault[]) => setFound({ faults, here: false }),
  };
}

function Trying({ tool, open, startGate }: { tool: ToolDetail; open: ToolAt[]; startGate: string | undefined }) {
  const schema = isObject(tool.inputSchema) ? tool.inputSchema : noSchema;
  const prepared = useMemo(() => prepare(schema), [schema]);
  const written = useArguments(schema, prepared.form !== undefined, () => takeForTool(tool.server ?? "-", tool.name) ?? {});
  const trial = useTrial(tool.server ?? "-", tool.name);
  const [gate, setGate] = useState(open.find((at) => at.gate === startGate)?.gate ?? open[0]?.gate ?? "");
  const [more, setMore] = useState<More>({ idempotencyKey: "", session: "" });
  const [confirming, setConfirming] = useState(false);
  const through = useGate(gate);
  const side = useRef<HTMLDivElement>(null);
  const send = async () => {
    written.tell([]);
    side.current?.scrollIntoView({ block: "nearest" });
    const name = open.find((at) => at.gate === gate)?.name ?? tool.name;
    written.tell(await trial.run({ tool: name, gate, args: written.args, ...filled(more) }));
  };
  const run = (anyway: boolean) => {
    if (!written.readable || trial.since !== undefined || trial.asked || !(anyway || written.fit())) return;
    if (tool.mode === "write" && through?.mode !== "read") setConfirming(true);
    else void send();
  };
  const take = (tried: Tried) => {
    written.change(tried.args);
    written.tell([]);
    if (open.some((at) => at.gate === tried.gate)) setGate(tried.gate);
  };
  const held = trial.asked?.request;
  return (
    <div className="TryIt">
      <Asking prepared={prepared} written={written} busy={trial.since !== undefined} held={held} cost={costWords(tool, through)} onRun={run}>
        <GateChoice open={open} gate={held?.gate ?? gate} disabled={held !== undefined} onChange={setGate} />
        <MoreFields value={more} onChange={setMore} />
      </Asking>
      <div className="TryIt-side stack" ref={side}>
        <Card title="Result">
          <Result tool={tool} trial={trial} onTell={written.tell} onAgain={() => run(false)} />
        </Card>
        <TriedList tried={trial.tried} disabled={held !== undefined} onTake={take} />
      </div>
      <Confirm open={confirming} onClose={() => setConfirming(false)} title={`Run ${tool.name}?`} action="Run it" onConfirm={async () => void send()}>
        <p>It is not known to only read, and the gate <strong>{gate}</strong> lets tools change things. What it does is real.</p>
      </Confirm>
    </div>
  );
}

type ResultProps = { tool: ToolDetail; trial: Trial; onTell: (faults: Fault[]) => void; onAgain: () => void };

/** What became of the call: it runs, it asks, or it has ended. */
function Result({ tool, trial, onTell, onAgain }: ResultProps) {
  const { since, asked, outcome } = trial;
  const waits = asked && since === undefined;
  return (
    <>
      <p className="unseen" role="status">{waits && `The tool ${visible(tool.name)} asks something before it goes on.`}</p>
      {since !== undefined && <Running since={since} onCancel={trial.cancel} />}
      {asked && (
        <div hidden={!waits}>{/* what was written is still there if the answer is put off */}
          <Questions key={asked.round} tool={tool.name} server={tool.server} asked={asked} onAnswer={async (answers) => onTell(await trial.answer(answers))} />
        </div>
      )}
      {since === undefined && !asked && <Outcome outcome={outcome} onAgain={onAgain} />}
    </>
  );
}

type AskingProps = {
  prepared: Prepared;
  written: Written;
  busy: boolean;
  /** The call whose tool asks something: it is shown as it was made, and cannot be changed. */
  held: Attempt | undefined;
  cost: string;
  onRun: (anyway: boolean) => void;
  children: ReactNode;
};

/** The arguments and the button. Enter runs, and so does Ctrl or ⌘ with Enter where Enter is a line end. */
function Asking({ prepared, written, busy, held, cost, onRun, children }: AskingProps) {
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onRun(false);
  };
  const press = (event: KeyboardEvent) => {
    if (event.defaultPrevented || event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    onRun(false);
  };
  const { args, faults, here, readable, change } = written;
  return (
    <form className="TryIt-form" noValidate onSubmit={submit} onKeyDown={press}>
      <Card title="Arguments">
        <fieldset className="TryIt-held" disabled={held !== undefined}>
          {held && <p className="TryIt-note"><Lock aria-hidden="true" /> Frozen while the tool asks: your answer belongs to this very call.</p>}
          <Arguments prepared={prepared} args={held?.args ?? args} faults={faults} disabled={held !== undefined} onChange={change} />
          <div className="TryIt-foot">
            {children}
            <div className="row-wrap">
              <Button type="submit" variant="primary" icon={<Play />} busy={busy} disabled={!readable || held !== undefined}>Run</Button>
              <span className="soft small">{held && !busy ? "waits for your answer" : cost}</span>
              {here && faults.length > 0 && <Unfit faults={faults} onAnyway={() => onRun(true)} />}
            </div>
          </div>
        </fieldset>
      </Card>
    </form>
  );
}

function useGate(name: string): Gate | undefined {
  return useQuery(queries.gates()).data?.gates.find((each) => each.name === name);
}

/** What a call costs. Only a gate for execution takes money. */
function costWords(tool: ToolDetail, gate: Gate | undefined): string {
  if (price(tool.priceUsd) === "free") return "free of charge";
  return gate?.surface === "execute" ? `${price(tool.priceUsd)} for a call that succeeds` : "free of charge through this gate";
}

type More = Required<Pick<CallRequest, "idempotencyKey" | "session">>;

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

function GateChoice({ open, gate, disabled, onChange }: { open: ToolAt[]; gate: string; disabled: boolean; onChange: (gate: string) => void }) {
  const gates = useQuery(queries.gates());
  const mode = (name: string) => gates.data?.gates.find((each) => each.name === name)?.mode;
  const items = open.map((at) => ({ value: at.gate, label: mode(at.gate) === "write" ? `${at.gate} (write)` : at.gate }));
  const name = open.find((at) => at.gate === gate)?.name;
  return <Select label="Through the gate" value={gate} items={items} disabled={disabled} onChange={onChange} hint={`where it is called ${name ?? ""}`} />;
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
