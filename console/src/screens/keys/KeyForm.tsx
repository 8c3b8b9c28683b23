import { useQuery } from "@tanstack/react-query";
import { useId } from "react";
import { queries } from "../../api/queries";
import { Badge } from "../../components/Badge";
import { TextField } from "../../components/Field";
import { Select } from "../../components/Select";
import { ErrorNote, Skeleton } from "../../components/States";
import { Checkbox, Switch } from "../../components/Toggle";
import { type Choice, lifetimes, nameError, type ConsoleAccess, scopesOf, describeScopes } from "./scopes";

export type KeyDraft = Choice & { name: string; caller: string; account: string; ttl: string };

export const emptyDraft: KeyDraft = { name: "", caller: "", account: "", ttl: "2160h", everyGate: true, gates: [], write: false, access: "none" };

/** Reports whether a key can be created from a draft. */
export function isComplete(draft: KeyDraft): boolean {
  return draft.name.trim() !== "" && draft.caller !== "" && !nameError(draft.caller) && !nameError(draft.account) && (draft.everyGate || draft.gates.length > 0);
}

const consoleAccesses: { value: ConsoleAccess; label: string }[] = [
  { value: "none", label: "Own calls and spend only" },
  { value: "viewer", label: "View everything (viewer)" },
  { value: "operator", label: "View and change (operator)" },
];

type KeyFormProps = { draft: KeyDraft; onChange: (draft: KeyDraft) => void };

/** A key's caller, account, gates and scopes. */
export function KeyForm({ draft, onChange }: KeyFormProps) {
  const set = (more: Partial<KeyDraft>) => onChange({ ...draft, ...more });
  return (
    <div className="stack">
      <TextField label="Name" required value={draft.name} onChange={(name) => set({ name })} maxLength={128} autoComplete="off" hint="What the key is for." />
      <div className="grid-2 Keys-pair">
        <TextField label="Caller" required value={draft.caller} onChange={(caller) => set({ caller: caller.trim() })} error={nameError(draft.caller)} autoComplete="off" spellCheck={false} hint="The identity under which calls are recorded." />
        <TextField label="Account" value={draft.account} onChange={(account) => set({ account: account.trim() })} error={nameError(draft.account)} autoComplete="off" spellCheck={false} placeholder={draft.caller} hint="The account that pays. Defaults to the caller." />
      </div>
      <Gates draft={draft} onChange={onChange} />
      <div className="grid-2 Keys-pair">
        <Select label="Console access" value={draft.access} items={consoleAccesses} onChange={(reach) => set({ access: reach })} />
        <Select label="Expires in" value={draft.ttl} items={lifetimes} onChange={(ttl) => set({ ttl })} />
      </div>
      <p className="Keys-words" role="status">{draft.everyGate || draft.gates.length > 0 ? describeScopes(scopesOf(draft)).join(" ") : "Choose at least one gate."}</p>
    </div>
  );
}

function Gates({ draft, onChange }: KeyFormProps) {
  const id = useId();
  return (
    <div role="group" aria-labelledby={id} className="stack-s">
      <span id={id} className="Field-label">Gates</span>
      <Switch label="All gates, including future ones" checked={draft.everyGate} onChange={(everyGate) => onChange({ ...draft, everyGate })} />
      {!draft.everyGate && <GateList draft={draft} onChange={onChange} />}
      <Switch label="Allow writes at write gates" checked={draft.write} onChange={(write) => onChange({ ...draft, write })} />
    </div>
  );
}

function GateList({ draft, onChange }: KeyFormProps) {
  const { data, error } = useQuery(queries.gates());
  const flip = (gate: string, on: boolean) => onChange({ ...draft, gates: on ? [...draft.gates, gate] : draft.gates.filter((each) => each !== gate) });
  if (!data) return error ? <ErrorNote error={error} /> : <Skeleton lines={2} />;
  return (
    <ul className="Keys-gates" aria-label="Allowed gates">
      {data.gates.map((gate) => (
        <li key={gate.name}>
          <Checkbox label={<>{gate.name} <Badge tone={gate.mode === "write" ? "warn" : "neutral"}>{gate.mode}</Badge></>} checked={draft.gates.includes(gate.name)} onChange={(on) => flip(gate.name, on)} />
        </li>
      ))}
    </ul>
  );
}
