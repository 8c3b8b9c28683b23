import type { FieldProps } from "@rjsf/utils";
import { useEffect, useId, useRef, useState } from "react";
import type { Json, JsonObject } from "../../api/json";
import { initialValue, optionFor, fitsOption } from "./choice";
import { unsetKey } from "./formSchema";

/** A oneOf field: a list of options, and the fields of the selected option. */
export function ChoiceField(props: FieldProps) {
  const { schema, formData, onChange, fieldPathId, registry, name, disabled } = props;
  const options = (schema.oneOf ?? []) as JsonObject[];
  const value = formData as Json | undefined;
  const [chosen, setChosen] = useState(() => optionFor(options, value));
  const known = useRef(value);
  const id = useId();
  useEffect(() => {
    if (JSON.stringify(known.current) === JSON.stringify(value)) return;
    known.current = value;
    if (!fitsOption(options[chosen] ?? {}, value)) setChosen(optionFor(options, value));
  });
  const option = options[chosen] ?? {};
  const choose = (next: number) => {
    const target = options[next] ?? {};
    const initial = initialValue(target, target[unsetKey] ? undefined : (registry.schemaUtils.getDefaultFormState(target, undefined) as Json | undefined));
    known.current = initial;
    setChosen(next);
    onChange(initial, fieldPathId.path);
  };
  const { SchemaField } = registry.fields;
  return (
    <div className="Form-choice">
      <select id={id} className="Input Form-select" aria-label={`Type of ${name}`} disabled={disabled} value={chosen} onChange={(event) => choose(Number(event.target.value))}>
        {options.map((each, i) => <option key={i} value={i}>{String(each.title ?? `Option ${i + 1}`)}</option>)}
      </select>
      {SchemaField && !option[unsetKey] && option.type !== "null" && <SchemaField {...props} key={chosen} schema={option} required />}
    </div>
  );
}
