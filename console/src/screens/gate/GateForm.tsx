import { type QueryClient, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { putGate } from "../../api/actions";
import { ApiError } from "../../api/client";
import { queries } from "../../api/queries";
import type { Gate, GateChange, Gates } from "../../api/types";
import { Button } from "../../components/Button";
import { Dialog } from "../../components/Dialog";
import { TextField } from "../../components/Field";
import { Select } from "../../components/Select";
import { ErrorNote } from "../../components/States";
import { toast } from "../../components/Toast";
import { nameHint, namePattern } from "../toolset/selection";
import { choices, differences, type GateSettings, settingsOf } from "./terms";

type GateFormProps = {
  list: Gates;
  /** The gate to edit; undefined for a new one. */
  gate: Gate | undefined;
  onClose: () => void;
};

/** A form for a new or existing gate. */
export function GateForm({ list, gate, onClose }: GateFormProps) {
  const [name, setName] = useState(gate?.name ?? "");
  const [terms, setTerms] = useState<GateSettings>(() => settingsOf(gate));
  const [original] = useState(gate); // the gate when the form was opened
  const save = useSave(name, terms, list.version, onClose);
  const nameError = gate || name === "" ? undefined : !namePattern.test(name) ? `Use ${nameHint}.` : list.gates.some((each) => each.name === name) ? "A gate with this name already exists." : undefined;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (namePattern.test(name) && !nameError) save.mutate();
  };
  return (
    <Dialog
      open
      onClose={onClose}
      title={gate ? `Edit ${gate.name}` : "New gate"}
      description={gate ? "Takes effect immediately, including for connected callers. The edit overrides the configuration file until you revert it." : "An entry point at /mcp/NAME, available as soon as you save it."}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" type="submit" form="gate-form" busy={save.isPending} disabled={name === "" || nameError !== undefined}>{gate ? "Save" : "Create"}</Button>
        </>
      }
    >
      <form id="gate-form" className="stack" onSubmit={submit}>
        {!gate && <TextField label="Name" value={name} onChange={setName} hint={nameHint} error={nameError} required mono autoComplete="off" spellCheck={false} maxLength={32} />}
        <SettingFields terms={terms} onChange={setTerms} />
        <Failure error={save.error} was={original} now={gate} />
      </form>
    </Dialog>
  );
}

function SettingFields({ terms, onChange }: { terms: GateSettings; onChange: (terms: GateSettings) => void }) {
  const toolsets = useQuery(queries.toolsets());
  const names = toolsets.data?.toolsets.map((set) => set.name) ?? (terms.toolset ? [terms.toolset] : []);
  const items = [{ value: "", label: "All tools" }, ...names.map((value) => ({ value, label: value }))];
  const set = (more: Partial<GateSettings>) => onChange({ ...terms, ...more });
  return (
    <div className="grid-2 Gates-fields">
      <Select label="Mode" value={terms.mode} items={choices.mode} onChange={(mode) => set({ mode })} hint="Whether callers can change anything." />
      <Select label="Toolset" value={terms.toolset} items={items} onChange={(toolset) => set({ toolset })} hint="The tools that the gate offers." />
      <Select label="Surface" value={terms.surface} items={choices.surface} onChange={(surface) => set({ surface })} hint="Free answers, paid execution, or both." />
      <Select label="Callers" value={terms.callers} items={choices.callers} onChange={(callers) => set({ callers })} hint="Who can call tools." />
      <Select label="Naming" value={terms.naming} items={choices.naming} onChange={(naming) => set({ naming })} hint="How tool names are written." />
      <Select label="Errors" value={terms.errors} items={choices.errors} onChange={(errors) => set({ errors })} hint="How errors are reported." />
      <Select label="Offer" value={terms.offer} items={choices.offer} onChange={(offer) => set({ offer })} hint="Whether models see a list of all tools, or search for them." />
    </div>
  );
}

function Failure({ error, was, now }: { error: unknown; was: Gate | undefined; now: Gate | undefined }) {
  if (!(error instanceof ApiError) || error.status !== 409) return <ErrorNote error={error} />;
  const changed = was && now ? differences(was, now) : [];
  return (
    <div className="stack-s">
      <ErrorNote error={new Error("The configuration changed since you opened this form, so nothing was saved. Your choices are still here; review them and save again.")} />
      {changed.length > 0 && <ul className="small soft">{changed.map((each) => <li key={each.term}>{each.term} changed from {each.was} to {each.now}.</li>)}</ul>}
    </div>
  );
}

function useSave(name: string, terms: GateSettings, version: number, onDone: () => void) {
  const client = useQueryClient();
  const navigate = useNavigate({ from: "/gates" });
  const { mode, surface, toolset, naming, callers, errors, offer } = terms;
  const body: GateChange = { mode, surface, toolset: toolset || undefined, naming, callers, errors, offer, version };
  return useMutation({
    mutationFn: () => putGate(name, body),
    onError: () => reload(client),
    onSuccess: async () => {
      await reload(client); // the next change needs the new version
      toast.good(`Saved gate ${name}.`);
      onDone();
      void navigate({ search: { gate: name } });
    },
  });
}

/** Reloads everything that depends on gates. */
async function reload(client: QueryClient) {
  await Promise.all(["gates", "toolsets", "edits", "tools", "overview"].map((key) => client.invalidateQueries({ queryKey: [key] })));
}
