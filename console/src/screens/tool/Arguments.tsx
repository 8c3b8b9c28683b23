import { lazy, Suspense, useState } from "react";
import type { JsonObject } from "../../api/types";
import { Skeleton } from "../../components/States";
import type { Fault } from "./check";
import { FormBoundary } from "./FormBoundary";
import { JsonEditor } from "./JsonEditor";

const ArgumentForm = lazy(() => import("./ArgumentForm"));

/** The schema of the form, or why there is none. */
export type Prepared = { form?: JsonObject; reason?: string };

type ArgumentsProps = {
  prepared: Prepared;
  args: JsonObject;
  faults: Fault[];
  disabled: boolean;
  onChange: (args: JsonObject | undefined) => void;
};

/** The arguments, in a form or as JSON; what is written in one is in the other. */
export function Arguments({ prepared, args, faults, disabled, onChange }: ArgumentsProps) {
  const [written, setWritten] = useState(false);
  const [failed, setFailed] = useState(false);
  const form = failed ? undefined : prepared.form;
  const reason = failed ? "The form could not be shown." : prepared.reason;
  const choose = (json: boolean) => {
    if (!json) onChange(args); // what was no JSON is given up
    setWritten(json);
  };
  return (
    <div className="stack-s">
      {form ? <Ways written={written} onChoose={choose} /> : <p className="soft" role="status">{reason} Write the arguments as JSON; the yard checks them.</p>}
      {form && !written ? (
        <FormBoundary onFail={() => setFailed(true)}>
          <Suspense fallback={<Skeleton lines={4} />}>
            {takesNothing(form) ? <p className="soft">It takes no arguments.</p> : <ArgumentForm schema={form} args={args} faults={faults} disabled={disabled} onChange={onChange} />}
          </Suspense>
        </FormBoundary>
      ) : (
        <JsonEditor label="Arguments as JSON" args={args} faults={faults} onChange={onChange} />
      )}
    </div>
  );
}

function takesNothing(form: JsonObject): boolean {
  return form.type === "object" && !form.additionalProperties && Object.keys((form.properties ?? {}) as JsonObject).length === 0;
}

function Ways({ written, onChoose }: { written: boolean; onChoose: (written: boolean) => void }) {
  return (
    <div className="TryIt-ways" role="group" aria-label="How to write the arguments">
      <button type="button" aria-pressed={!written} onClick={() => onChoose(false)}>Form</button>
      <button type="button" aria-pressed={written} onClick={() => onChoose(true)}>JSON</button>
    </div>
  );
}
