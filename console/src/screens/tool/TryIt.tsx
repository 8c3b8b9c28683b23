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
import { takeArguments } from "../call/rerun";
import { Arguments, type Prepared } from "./Arguments";
import { check, type Fault } from "./check";
import { curl } from "./curl";
import { draftOf, storeDraft } from "./drafts";
import { focusUnparsable, useFocusOnFault } from "./focus";
import { formSchema, NotFormable } from "./formSchema";
import type { PastRun } from "./runStorage";
import { Outcome, Running } from "./Outcome";
import { Questions } from "./Questions";
import type { RunRequest } from "./rounds";
import { RecentRuns } from "./RecentRuns";
import { type ToolRun, useToolRun } from "./useToolRun";
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
  return <TryForm tool={tool} open={open} startGate={startGate} />;
}

/** A schema's form, or the reason why there is no form. */
function prepare(schema: JsonObject): Prepared {
  try {
    return { form: formSchema(schema) };
  } catch (cause) {
    return { reason: cause instanceof NotFormable ? cause.message : "This schema cannot be displayed as a form." };
  }
}

const noSchema: JsonObject = { type: "object" };

type ArgumentDraft = ReturnType<typeof useArguments>;

/** The arguments being edited, and their errors. */
function useArguments(schema: JsonObject, checked: boolean, start: () => JsonObject) {
  const [args, setArgs] = useState(start);
  const [readable, setReadable] = useState(true);
  const [found, setFound] = useState<{ faults: Fault[]; here: boolean; run: number }>({ faults: [], here: true, run: 0 });
  return {
    args,
    readable,
    ...found,
    /** Sets the arguments; undefined means that the JSON is not a valid object. */
    change: (next: JsonObject | undefined) => {
      setReadable(next !== undefined);
      if (!next) return;
      setArgs(next);
      if (found.here && found.faults.length > 0) setFound({ ...found, faults: check(schema, next) });
    },
    /** Validates the arguments and reports whether they are valid. */
    fit: () => {
      const faults = checked ? check(schema, args) : [];
      setFound((old) => ({ faults, here: true, run: old.run + 1 }));
      return faults.length === 0;
    },
    /** Shows errors reported by the yard. */
    tell: (faults: Fault[]) => setFound((old) => ({ faults, here: false, run: old.run + 1 })),
  };
}

function TryForm({ tool, open, startGate }: { tool: ToolDetail; open: GateDecision[]; startGate: string | undefined }) {
  const schema = isObject(tool.inputSchema) ? tool.inputSchema : noSchema;
  const prepared = useMemo(() => prepare(schema), [schema]);
  const draft = draftOf(tool.server ?? "-", tool.name);
  const written = useArguments(schema, prepared.form !== undefined, () => takeArguments(tool.server ?? "-", tool.name) ?? draft?.args ?? {});
  const toolRun = useToolRun(tool.server ?? "-", tool.name);
  const [gate, setGate] = useState(open.find((at) => at.gate === (draft?.gate ?? startGate))?.gate ?? open.find((at) => at.gate === startGate)?.gate ?? open[0]?.gate ?? "");
  const [more, setMore] = useState<Options>({ idempotencyKey: "", session: "", asOf: "" });
  const [confirming, setConfirming] = useState(false);
  const through = useGate(gate);
  const options = filled(through?.clock === "caller" ? more : { ...more, asOf: "" });
  const side = useRef<HTMLDivElement>(null);
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => storeDraft(tool.server ?? "-", tool.name, { args: written.args, gate }), [tool.server, tool.name, written.args, gate]);
  useFocusOnFault(form, written.faults.length > 0, written.run);
  const send = async () => {
    written.tell([]);
    side.current?.scrollIntoView({ block: "nearest" });
    const name = open.find((at) => at.gate === gate)?.name ?? tool.name;
    written.tell(await toolRun.run({ tool: name, gate, args: written.args, ...options }));
  };
  const run = (anyway: boolean) => {
    if (!written.readable || toolRun.since !== undefined || toolRun.question || focusUnparsable(form.current) || !(anyway || written.fit())) return;
    if (tool.mode === "write" && through?.mode !== "read") setConfirming(true);
    else void send();
  };
  const take = (run: PastRun) => {
    written.change(run.args);
    written.tell([]);
    if (open.some((at) => at.gate === run.gate)) setGate(run.gate);
  };
  const held = toolRun.question?.request;
  return (
    <div className="TryIt">
      <ArgumentPanel
        form={form}
        prepared={prepared}
        written={written}
        busy={toolRun.since !== undefined}
        held={held}
        cost={costText(tool, through)}
        gate={<GateChoice open={open} tool={tool.name} gate={held?.gate ?? gate} disabled={held !== undefined} onChange={setGate} />}
        curl={() => curl({ tool: open.find((at) => at.gate === gate)?.name ?? tool.name, gate, args: written.args, ...options }, through?.callers === "keys")}
        onRun={run}
      >
        {through?.clock === "caller" && (
          <TextField label="As of" mono maxLength={64} placeholder="2026-01-31T09:30:00Z" hint="The point in time that the call refers to, in RFC 3339 format. Defaults to now." value={more.asOf} onChange={(asOf) => setMore({ ...more, asOf })} />
        )}
        <OptionFields value={more} onChange={setMore} />
      </ArgumentPanel>
      <div className="TryIt-side stack" ref={side}>
        <Card title="Result">
          <Result tool={tool} toolRun={toolRun} onErrors={written.tell} onAgain={() => run(false)} />
        </Card>
        <RecentRuns runs={toolRun.runs} disabled={held !== undefined} onSelect={take} />
      </div>
      <Confirm open={confirming} onClose={() => setConfirming(false)} title={`Run ${tool.name}?`} action="Run" onConfirm={async () => void send()}>
        <p>This tool is not declared read-only, and the gate <strong>{gate}</strong> allows writes. The call can have real effects.</p>
      </Confirm>
    </div>
  );
}

type ResultProps = { tool: ToolDetail; toolRun: ToolRun; onErrors: (faults: Fault[]) => void; onAgain: () => void };

/** The state of the call: running, waiting for an answer, or finished. */
function Result({ tool, toolRun, onErrors, onAgain }: ResultProps) {
  const { since, question, outcome } = toolRun;
  const waits = question && since === undefined;
  return (
    <>
      <p className="unseen" role="status">{waits && `Tool ${visible(tool.name)} is asking a question.`}</p>
      {since !== undefined && <Running since={since} onCancel={toolRun.cancel} />}
      {question && (
        <div hidden={!waits}>{/* keeps the input in case the answer fails */}
          <Questions key={question.round} tool={tool.name} server={tool.server} openQuestion={question} onAnswer={async (answers) => onErrors(await toolRun.answer(answers))} />
        </div>
      )}
      {since === undefined && !question && <Outcome outcome={outcome} onAgain={onAgain} />}
    </>
  );
}

type ArgumentPanelProps = {
  form: RefObject<HTMLFormElement | null>;
  prepared: Prepared;
  written: ArgumentDraft;
  busy: boolean;
  /** The call that is waiting for an answer; its arguments are shown read-only. */
  held: RunRequest | undefined;
  cost: string;
  gate: ReactNode;
  curl: () => string;
  onRun: (anyway: boolean) => void;
  children: ReactNode;
};

/** The arguments and the Run button. Enter runs the tool; in multi-line fields Ctrl or ⌘ with Enter does. */
function ArgumentPanel({ form, prepared, written, busy, held, cost, gate, curl: command, onRun, children }: ArgumentPanelProps) {
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
              {here && faults.length > 0 && <InvalidNote faults={faults} onAnyway={() => onRun(true)} />}
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
function costText(tool: ToolDetail, gate: Gate | undefined): string {
  if (price(tool.priceUsd) === "free") return "Free";
  return gate?.surface === "execute" ? `${price(tool.priceUsd)} per successful call` : "Free at this gate";
}

type Options = Required<Pick<CallRequest, "idempotencyKey" | "session" | "asOf">>;

/** The options that are set. */
function filled(options: Options): Partial<Options> {
  return Object.fromEntries(Object.entries(options).map(([name, value]) => [name, value.trim()]).filter(([, value]) => value !== ""));
}

function InvalidNote({ faults, onAnyway }: { faults: Fault[]; onAnyway: () => void }) {
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

function OptionFields({ value, onChange }: { value: Options; onChange: (value: Options) => void }) {
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
