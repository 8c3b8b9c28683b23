import { useQuery } from "@tanstack/react-query";
import { Lock, Play } from "lucide-react";
import { type FormEvent, type KeyboardEvent, type ReactNode, type RefObject, useEffect, useMemo, useRef, useState } from "react";
import { isObject, type JsonObject } from "../../api/json";
import { queries } from "../../api/queries";
import type { CallRequest, Gate, GateDecision, ToolDetail } from "../../api/types";
import { Button } from "../../components/Button";
import { Card } from "../../components/Card";
import { CopyButton } from "../../components/Code";
import { Confirm } from "../../components/Dialog";
import { TextField } from "../../components/Field";
import { Select } from "../../components/Select";
import { EmptyState } from "../../components/States";
import { plural, price } from "../../format";
import { visible } from "../../format/visible";
import { takeForTool } from "../call/again";
import { Arguments, type Prepared } from "./Arguments";
import { check, type Fault } from "./check";
import { curl } from "./curl";
import { draftOf, keepDraft } from "./drafts";
import { focusUnreadable, useFocusOnFault } from "./focus";
import { formSchema, NoForm } from "./formSchema";
import type { Tried } from "./history";
import { Outcome, Running } from "./Outcome";
import { Questions } from "./Questions";
import type { Attempt } from "./rounds";
import { TriedList } from "./TriedList";
import { type Trial, useTrial } from "./useTrial";
import "./TryIt.css";

/** Calls the tool at one of its gates, as an agent would. */
export function TryIt({ tool, startGate }: { tool: ToolDetail; startGate: string | undefined }) {
  const open = tool.visibility.filter((at) => at.visible);
  if (open.length === 0) {
    return (
      <EmptyState title="No gate offers this tool">
        The Visibility tab explains, for each gate, why it is hidden and how to change that.
      </EmptyState>
    );
  }
  return <Trying tool={tool} open={open} startGate={startGate} />;
}

/** The form of a schema, or the reason why there is none. */
function prepare(schema: JsonObject): Prepared {
  try {
    return { form: formSchema(schema) };
  } catch (cause) {
    return { reason: cause instanceof NoForm ? cause.message : "This schema cannot be displayed as a form." };
  }
}

const noSchema: JsonObject = { type: "object" };

type Written = ReturnType<typeof useArguments>;

/** The arguments being edited, and their errors. */
function useArguments(schema: JsonObject, checked: boolean, start: () => JsonObject) {
  const [args, setArgs] = useState(start);
  const [readable, setReadable] = useState(true);
  const [found, setFound] = useState<{ faults: Fault[]; here: boolean; run: number }>({ faults: [], here: true, run: 0 });
  return {
    args,
    readable,
    ...found,
    /** Sets the arguments; undefined is a text that is no object yet. */
    change: (next: JsonObject | undefined) => {
      setReadable(next !== undefined);
      if (!next) return;
      setArgs(next);
      if (found.here && found.faults.length > 0) setFound({ ...found, faults: check(schema, next) });
    },
    /** Validates them, and reports whether they are valid. */
    fit: () => {
      const faults = checked ? check(schema, args) : [];
      setFound((old) => ({ faults, here: true, run: old.run + 1 }));
      return faults.length === 0;
    },
    /** Shows errors that the yard found. */
    tell: (faults: Fault[]) => setFound((old) => ({ faults, here: false, run: old.run + 1 })),
  };
}

function Trying({ tool, open, startGate }: { tool: ToolDetail; open: GateDecision[]; startGate: string | undefined }) {
  const schema = isObject(tool.inputSchema) ? tool.inputSchema : noSchema;
  const prepared = useMemo(() => prepare(schema), [schema]);
  const draft = draftOf(tool.server ?? "-", tool.name);
  const written = useArguments(schema, prepared.form !== undefined, () => takeForTool(tool.server ?? "-", tool.name) ?? draft?.args ?? {});
  const trial = useTrial(tool.server ?? "-", tool.name);
  const [gate, setGate] = useState(open.find((at) => at.gate === (draft?.gate ?? startGate))?.gate ?? open.find((at) => at.gate === startGate)?.gate ?? open[0]?.gate ?? "");
  const [more, setMore] = useState<More>({ idempotencyKey: "", session: "" });
  const [confirming, setConfirming] = useState(false);
  const through = useGate(gate);
  const side = useRef<HTMLDivElement>(null);
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => keepDraft(tool.server ?? "-", tool.name, { args: written.args, gate }), [tool.server, tool.name, written.args, gate]);
  useFocusOnFault(form, written.faults.length > 0, written.run);
  const send = async () => {
    written.tell([]);
    side.current?.scrollIntoView({ block: "nearest" });
    const name = open.find((at) => at.gate === gate)?.name ?? tool.name;
    written.tell(await trial.run({ tool: name, gate, args: written.args, ...filled(more) }));
  };
  const run = (anyway: boolean) => {
    if (!written.readable || trial.since !== undefined || trial.asked || focusUnreadable(form.current) || !(anyway || written.fit())) return;
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
      <Asking
        form={form}
        prepared={prepared}
        written={written}
        busy={trial.since !== undefined}
        held={held}
        cost={costWords(tool, through)}
        gate={<GateChoice open={open} tool={tool.name} gate={held?.gate ?? gate} disabled={held !== undefined} onChange={setGate} />}
        curl={() => curl({ tool: open.find((at) => at.gate === gate)?.name ?? tool.name, gate, args: written.args, ...filled(more) }, through?.callers === "keys")}
        onRun={run}
      >
        <MoreFields value={more} onChange={setMore} />
      </Asking>
      <div className="TryIt-side stack" ref={side}>
        <Card title="Result">
          <Result tool={tool} trial={trial} onTell={written.tell} onAgain={() => run(false)} />
        </Card>
        <TriedList tried={trial.tried} disabled={held !== undefined} onTake={take} />
      </div>
      <Confirm open={confirming} onClose={() => setConfirming(false)} title={`Run ${tool.name}?`} action="Run" onConfirm={async () => void send()}>
        <p>This tool is not declared read-only, and the gate <strong>{gate}</strong> allows writes. The call can have real effects.</p>
      </Confirm>
    </div>
  );
}

type ResultProps = { tool: ToolDetail; trial: Trial; onTell: (faults: Fault[]) => void; onAgain: () => void };

/** The state of the call: running, waiting for an answer, or finished. */
function Result({ tool, trial, onTell, onAgain }: ResultProps) {
  const { since, asked, outcome } = trial;
  const waits = asked && since === undefined;
  return (
    <>
      <p className="unseen" role="status">{waits && `The tool ${visible(tool.name)} asks a question.`}</p>
      {since !== undefined && <Running since={since} onCancel={trial.cancel} />}
      {asked && (
        <div hidden={!waits}>{/* keeps what was typed if the answer fails */}
          <Questions key={asked.round} tool={tool.name} server={tool.server} asked={asked} onAnswer={async (answers) => onTell(await trial.answer(answers))} />
        </div>
      )}
      {since === undefined && !asked && <Outcome outcome={outcome} onAgain={onAgain} />}
    </>
  );
}

type AskingProps = {
  form: RefObject<HTMLFormElement | null>;
  prepared: Prepared;
  written: Written;
  busy: boolean;
  /** The call that waits for an answer: shown as it was made, and read-only. */
  held: Attempt | undefined;
  cost: string;
  gate: ReactNode;
  curl: () => string;
  onRun: (anyway: boolean) => void;
  children: ReactNode;
};

/** The arguments and the Run button. Enter runs; Ctrl or ⌘ with Enter does where Enter is a line end. */
function Asking({ form, prepared, written, busy, held, cost, gate, curl: command, onRun, children }: AskingProps) {
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
    <form ref={form} className="TryIt-form" noValidate onSubmit={submit} onKeyDown={press}>
      <Card title="Arguments">
        <fieldset className="TryIt-held" disabled={held !== undefined}>
          {held && <p className="TryIt-note"><Lock aria-hidden="true" /> Locked while the tool waits for your answer.</p>}
          <Arguments prepared={prepared} args={held?.args ?? args} faults={faults} disabled={held !== undefined} onChange={change} beside={gate} />
          <div className="TryIt-options">{children}</div>
          <div className="TryIt-foot">
            <div className="row-wrap">
              <Button type="submit" variant="primary" icon={<Play />} busy={busy} disabled={!readable || held !== undefined}>Run</Button>
              <span className="soft small">{held && !busy ? "Waiting for your answer" : cost}</span>
              {here && faults.length > 0 && <Unfit faults={faults} onAnyway={() => onRun(true)} />}
              <span className="grow" />
              <CopyButton text={command} label="Copy as curl" />
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

/** The price of a call. Only execution gates charge. */
function costWords(tool: ToolDetail, gate: Gate | undefined): string {
  if (price(tool.priceUsd) === "free") return "Free";
  return gate?.surface === "execute" ? `${price(tool.priceUsd)} per successful call` : "Free at this gate";
}

type More = Required<Pick<CallRequest, "idempotencyKey" | "session">>;

function filled({ idempotencyKey, session }: More): Partial<More> {
  return { ...(idempotencyKey.trim() && { idempotencyKey: idempotencyKey.trim() }), ...(session.trim() && { session: session.trim() }) };
}

function Unfit({ faults, onAnyway }: { faults: Fault[]; onAnyway: () => void }) {
  return (
    <span className="row-wrap" role="alert">
      <span className="bad small">{plural(faults.length, "invalid value")}</span>
      <Button size="s" variant="quiet" onClick={onAnyway}>Send anyway</Button>
    </span>
  );
}

function GateChoice({ open, gate, tool, disabled, onChange }: { open: GateDecision[]; tool: string; gate: string; disabled: boolean; onChange: (gate: string) => void }) {
  const gates = useQuery(queries.gates());
  const mode = (name: string) => gates.data?.gates.find((each) => each.name === name)?.mode;
  const items = open.map((at) => ({ value: at.gate, label: mode(at.gate) === "write" ? `${at.gate} (write)` : at.gate }));
  const name = open.find((at) => at.gate === gate)?.name;
  return <Select label="Via gate" value={gate} items={items} disabled={disabled} onChange={onChange} {...(name !== undefined && name !== tool && { hint: `as ${name}` })} />;
}

function MoreFields({ value, onChange }: { value: More; onChange: (value: More) => void }) {
  return (
    <details className="TryIt-more">
      <summary>Options</summary>
      <div className="stack-s">
        <TextField label="Idempotency key" mono maxLength={255} hint="A call with the same key runs once; repeats return the same result." value={value.idempotencyKey} onChange={(idempotencyKey) => onChange({ ...value, idempotencyKey })} />
        <TextField label="Session" mono maxLength={255} hint="The session that pays. Defaults to your account." value={value.session} onChange={(session) => onChange({ ...value, session })} />
      </div>
    </details>
  );
}
