// The controls of a generated form.
import type { FieldProps, WidgetProps } from "@rjsf/utils";
import { X } from "lucide-react";
import { type ReactNode, useEffect, useRef, useState } from "react";
import type { Json } from "../../api/types";
import { IconButton } from "../../components/Button";
import { Checkbox, Switch } from "../../components/Toggle";
import { fixedKey, hintKey, label, labelsKey, unsetKey } from "./formSchema";

export const hintId = (id: string) => `${id}__hint`;
export const errorId = (id: string) => `${id}__error`;

type Described = { id: string; schema: WidgetProps["schema"]; rawErrors?: string[] | undefined };

/** What ties a control to its description and to what is wrong with it. */
function tied({ id, schema, rawErrors }: Described) {
  const wrong = rawErrors !== undefined && rawErrors.length > 0;
  const hinted = schema.description || (schema as Record<string, unknown>)[hintKey];
  const about = [hinted && hintId(id), wrong && errorId(id)].filter(Boolean).join(" ");
  return { id, "aria-describedby": about || undefined, "aria-invalid": wrong || undefined } as const;
}

const isNullable = (schema: WidgetProps["schema"]) => Array.isArray(schema.type) && schema.type.includes("null");

/** A scalar that may be null has a button for that beside it. */
function OrNull({ props, children }: { props: WidgetProps; children: ReactNode }) {
  const { schema, value, onChange, label: name } = props;
  if (!isNullable(schema)) return children;
  const isNull = value === null;
  return (
    <div className="Form-ornull">
      <div className="grow">{children}</div>
      <button type="button" className="Form-null" aria-pressed={isNull} aria-label={`${name} is null`} onClick={() => onChange(isNull ? undefined : null)}>null</button>
    </div>
  );
}

/** A text. It grows with what is written; a line end is a part of it. */
export function TextWidget(props: WidgetProps) {
  const { schema, value, onChange, required } = props;
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  const write = (text: string) => onChange(text === "" && !required ? undefined : text);
  if (type === "number" || type === "integer") return <NumberInput {...props} />;
  return (
    <OrNull props={props}>
      <textarea
        {...tied(props)}
        rows={1}
        className="Input Form-text"
        aria-required={required || undefined}
        spellCheck={false}
        placeholder={value === null ? "null" : undefined}
        value={value ?? ""}
        onChange={(event) => write(event.target.value)}
        onKeyDown={(event) => {
          // Enter sends, as in other fields; with Shift it is a line end.
          if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
          event.preventDefault();
          event.currentTarget.form?.requestSubmit();
        }}
      />
    </OrNull>
  );
}

function NumberInput(props: WidgetProps) {
  const { schema, value, onChange, required } = props;
  const whole = schema.type === "integer" || (Array.isArray(schema.type) && schema.type.includes("integer"));
  return (
    <OrNull props={props}>
      <input
        {...tied(props)}
        type="number"
        className="Input Form-number"
        inputMode={whole ? "numeric" : "decimal"}
        step={whole ? 1 : "any"}
        min={schema.minimum}
        max={schema.maximum}
        aria-required={required || undefined}
        placeholder={value === null ? "null" : undefined}
        value={value ?? ""}
        onChange={(event) => onChange(event.target.value === "" ? undefined : event.target.value)}
      />
    </OrNull>
  );
}

/** True, false, or not said. */
export function SwitchWidget(props: WidgetProps) {
  const { value, onChange, required, disabled, label: name } = props;
  return (
    <OrNull props={props}>
      <div className="Form-switch" role="group" {...tied(props)} aria-invalid={undefined}>
        <Switch label={<>{value === undefined ? "not set" : String(value)}<span className="unseen">, {name}</span></>} checked={value === true} disabled={disabled === true} onChange={onChange} />
        {typeof value === "boolean" && !required && <IconButton size="s" label={`Unset ${name}`} icon={<X />} onClick={() => onChange(undefined)} />}
      </div>
    </OrNull>
  );
}

/** One of some values, or several of them. Values are known by their place, so they may be anything. */
export function SelectWidget(props: WidgetProps) {
  const { schema, options, value, onChange, multiple, required, label: name } = props;
  const list = options.enumOptions ?? [];
  if (multiple) return <Several {...props} />;
  const { [labelsKey]: names, [fixedKey]: isFixed } = schema as Record<string, unknown>;
  const at = list.findIndex((option) => same(option.value, value));
  if (isFixed && at === 0) return <output id={props.id} className="Form-fixed mono">{label(list[0]?.value as Json)}</output>;
  const isChoice = props.id.endsWith("__oneof_select");
  return (
    <select
      {...tied(props)}
      className="Input Form-select"
      aria-label={isChoice ? `Kind of ${name}` : undefined}
      aria-required={required || undefined}
      value={at}
      onChange={(event) => onChange(list[Number(event.target.value)]?.value)}
    >
      {!isChoice && (at < 0 || !required) && <option value={-1}>{required ? "Choose…" : "not set"}</option>}
      {list.map((option, i) => (
        <option key={i} value={i}>{isChoice ? option.label : Array.isArray(names) ? String(names[i]) : label(option.value as Json)}</option>
      ))}
    </select>
  );
}

function Several({ schema, options, value, onChange, disabled, label: name }: WidgetProps) {
  const list = options.enumOptions ?? [];
  const names = (schema.items as Record<string, unknown> | undefined)?.[labelsKey];
  const chosen: unknown[] = Array.isArray(value) ? value : [];
  const isChosen = (each: unknown) => chosen.some((one) => same(one, each));
  return (
    <div className="Form-several" role="group" aria-label={name}>
      {list.map((option, i) => (
        <Checkbox
          key={i}
          label={Array.isArray(names) ? String(names[i]) : label(option.value as Json)}
          checked={isChosen(option.value)}
          disabled={disabled === true}
          onChange={(on) => onChange(list.map((each) => each.value).filter((each) => (same(each, option.value) ? on : isChosen(each))))}
        />
      ))}
    </div>
  );
}

function same(a: unknown, b: unknown): boolean {
  return a === b || (typeof a === "object" && a !== null && JSON.stringify(a) === JSON.stringify(b));
}

/** What has no field of its own: a value that is written as JSON, or none. */
export function OtherField(props: FieldProps) {
  return (props.schema as Record<string, unknown>)[unsetKey] ? <Unset {...props} /> : <JsonField {...props} />;
}

/** Stands for no value, and takes away the one that was there. */
function Unset({ formData, onChange, fieldPathId }: FieldProps) {
  useEffect(() => {
    if (formData !== undefined) onChange(undefined, fieldPathId.path);
  }, [formData, onChange, fieldPathId]);
  return null;
}

/** JSON; what is none yet is not sent. */
function JsonField({ formData, onChange, fieldPathId, schema, rawErrors, name }: FieldProps) {
  const [text, setText] = useState(() => write(formData));
  const [wrong, setWrong] = useState(false);
  const sent = useRef(formData);
  useEffect(() => {
    if (same(sent.current, formData)) return;
    sent.current = formData;
    setText(write(formData));
    setWrong(false);
  }, [formData]);
  const change = (next: string) => {
    setText(next);
    try {
      sent.current = next.trim() === "" ? undefined : JSON.parse(next);
      setWrong(false);
      onChange(sent.current, fieldPathId.path);
    } catch {
      setWrong(true);
    }
  };
  const id = fieldPathId.$id;
  return (
    <>
      <textarea {...tied({ id, schema, rawErrors })} aria-label={name} rows={2} className="Input Input-area mono" spellCheck={false} placeholder="JSON" value={text} onChange={(event) => change(event.target.value)} />
      {wrong && <p className="Field-error" role="status">This is not JSON yet, so it is not sent.</p>}
    </>
  );
}

function write(value: unknown): string {
  return value === undefined ? "" : JSON.stringify(value, null, 2);
}
