import { lazy, type ReactNode, Suspense, useState } from "react";
import type { JsonObject } from "../../api/types";
import { Segments } from "../../components/Segments";
import { Skeleton } from "../../components/States";
import type { Fault } from "./check";
import { FormBoundary } from "./FormBoundary";
import { JsonEditor } from "./JsonEditor";

const ArgumentForm = lazy(() => import("./ArgumentForm"));

/** The form's schema, or the reason why there is no form. */
export type Prepared = { form?: JsonObject; reason?: string };

type ArgumentsProps = {
  prepared: Prepared;
  args: JsonObject;
  faults: Fault[];
  disabled: boolean;
  onChange: (args: JsonObject | undefined) => void;
  /** Shown beside the form/JSON switch. */
  beside?: ReactNode;
};

/** Edits the arguments as a form or as JSON. */
export function Arguments({ prepared, args, faults, disabled, onChange, beside }: ArgumentsProps) {
  const [written, setWritten] = useState(false);
  const [failed, setFailed] = useState(false);
  const form = failed ? undefined : prepared.form;
  const reason = failed ? "The form cannot be displayed." : prepared.reason;
  const choose = (json: boolean) => {
    if (!json) onChange(args); // drops invalid JSON
    setWritten(json);
  };
  return (
    <div>
      <div className="TryIt-top">
        {form && <Segments label="Edit as" value={written ? "json" : "form"} items={[{ value: "form", label: "Form" }, { value: "json", label: "JSON" }]} onChange={(next) => choose(next === "json")} />}
        {beside}
      </div>
      {!form && <p className="soft" role="status">{reason} Enter the arguments as JSON. They are validated when you run the tool.</p>}
      {form && !written ? (
        <FormBoundary onFail={() => setFailed(true)}>
          <Suspense fallback={<Skeleton lines={4} />}>
            {takesNothing(form) ? <p className="soft">This tool takes no arguments.</p> : <ArgumentForm schema={form} args={args} faults={faults} disabled={disabled} onChange={onChange} />}
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
