// Controls for the generated form.
import type { FieldProps, WidgetProps } from "@rjsf/utils";
import { X } from "lucide-react";
import { type ReactNode, useEffect, useRef, useState } from "react";
import type { Json } from "../../api/types";
import { IconButton } from "../../components/Button";
import { Checkbox, Switch } from "../../components/Toggle";
import { bytes } from "../../format";
import { base64Of, canShow, localMoment, utcMoment } from "./formats";
import { fixedKey, hintKey, inputKey, label, labelsKey, unsetKey } from "./formSchema";

export const hintId = (id: string) => `${id}__hint`;
export const errorId = (id: string) => `${id}__error`;

type Described = { id: string; schema: WidgetProps["schema"]; rawErrors?: string[] | undefined };

/** The attributes that link a control to its help and errors. */
function describedBy({ id, schema, rawErrors }: Described) {
  const wrong = rawErrors !== undefined && rawErrors.length > 0;
  const hinted = schema.description || (schema as Record<string, unknown>)[hintKey];
  const about = [hinted && hintId(id), wrong && errorId(id)].filter(Boolean).join(" ");
  return { id, "aria-describedby": about || undefined, "aria-invalid": wrong || undefined } as const;
}

const isNullable = (schema: WidgetProps["schema"]) => Array.isArray(schema.type) && schema.type.includes("null");

/** Adds a null switch to a nullable scalar. */
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

/** A string: an input for its format, or a text area that grows. */
export function TextWidget(props: WidgetProps) {
  const { schema, value, onChange, required } = props;
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  const write = (text: string) => onChange(text === "" && !required ? undefined : text);
  if (type === "number" || type === "integer") return <NumberInput {...props} />;
  const input = (schema as Record<string, unknown>)[inputKey];
  if (typeof input === "string" && canShow(input, value)) return <OrNull props={props}><FormatInput input={input} props={props} write={write} /></OrNull>;
  return (
    <OrNull props={props}>
      <textarea
        {...describedBy(props)}
        rows={1}
        className="Input Form-text"
        aria-required={required || undefined}
        spellCheck={false}
        placeholder={value === null ? "null" : undefined}
        value={value ?? ""}
        onChange={(event) => write(event.target.value)}
        onKeyDown={(event) => {
          // Enter submits, as in other fields; Shift+Enter inserts a line break.
          if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
          event.preventDefault();
          event.currentTarget.form?.requestSubmit();
        }}
      />
    </OrNull>
  );
}

type FormatInputProps = { input: string; props: WidgetProps; write: (text: string) => void };

function FormatInput({ input, props, write }: FormatInputProps) {
  const { value, required, disabled } = props;
  if (input === "file") return <FileInput {...props} />;
  const moment = input === "datetime";
  const type = moment ? "datetime-local" : input;
  return (
    <>
      <input
        {...describedBy(props)}
        type={type}
        className={["date", "time", "datetime"].includes(input) ? "Input Form-moment" : "Input"}
        step={moment || input === "time" ? 1 : undefined}
        disabled={disabled}
        aria-required={required || undefined}
        autoComplete={input === "password" ? "new-password" : "off"}
        spellCheck={false}
        placeholder={value === null ? "null" : undefined}
        value={moment ? localMoment(value) : (value ?? "")}
        onChange={(event) => write(moment ? utcMoment(event.target.value) : event.target.value)}
      />
      {moment && typeof value === "string" && value !== "" && <p className="Form-hint Form-sent">Sent as <code>{value}</code></p>}
    </>
  );
}

const maxFileSize = 4 << 20; // in bytes

/** A file, sent as base64. */
function FileInput(props: WidgetProps) {
  const { value, onChange, disabled, label: name } = props;
  const [file, setFile] = useState<string>();
  const [wrong, setWrong] = useState<string>();
  const read = async (chosen: File | undefined) => {
    if (!chosen) return;
    if (chosen.size > maxFileSize) return setWrong(`The file is larger than ${bytes(maxFileSize)}.`);
    setWrong(undefined);
    setFile(chosen.name);
    onChange(await base64Of(chosen));
  };
  if (typeof value === "string" && value !== "") {
    return (
      <div className="row">
        <span className="cut">{file ?? "Base64 data"}, {bytes(Math.floor((value.length * 3) / 4))}</span>
        <IconButton size="s" label={`Remove the file from ${name}`} icon={<X />} onClick={() => onChange(undefined)} />
      </div>
    );
  }
  return (
    <>
      <input {...describedBy(props)} type="file" className="Input Form-file" disabled={disabled} onChange={(event) => void read(event.target.files?.[0])} />
      {wrong && <p className="Field-error" role="alert">{wrong}</p>}
    </>
  );
}

function NumberInput(props: WidgetProps) {
  const { schema, value, onChange, required } = props;
  const [unreadable, setUnreadable] = useState(false);
  const whole = schema.type === "integer" || (Array.isArray(schema.type) && schema.type.includes("integer"));
  return (
    <OrNull props={props}>
      <input
        {...describedBy(props)}
        type="number"
        className="Input Form-number"
        inputMode={whole ? "numeric" : "decimal"}
        step={whole ? 1 : "any"}
        min={schema.minimum}
        max={schema.maximum}
        aria-required={required || undefined}
        data-unreadable={unreadable || undefined}
        placeholder={value === null ? "null" : undefined}
        value={value ?? ""}
        onInput={(event) => setUnreadable(event.currentTarget.validity.badInput)}
        onChange={(event) => onChange(event.target.value === "" ? undefined : event.target.value)}
      />
      {unreadable && <p className="Field-error" role="status">Enter a number.</p>}
    </OrNull>
  );
}

/** True, false, or not set. */
export function SwitchWidget(props: WidgetProps) {
  const { value, onChange, required, disabled, label: name } = props;
  return (
    <OrNull props={props}>
      <div className="Form-switch" role="group" {...describedBy(props)} aria-invalid={undefined}>
        <Switch label={<>{value === undefined ? "not set" : String(value)}<span className="unseen">, {name}</span></>} checked={value === true} disabled={disabled === true} onChange={onChange} />
        {typeof value === "boolean" && !required && <IconButton size="s" label={`Unset ${name}`} icon={<X />} onClick={() => onChange(undefined)} />}
      </div>
    </OrNull>
  );
}

/** A single or multiple selection. Options are identified by index, so values can be of any type. */
export function SelectWidget(props: WidgetProps) {
  const { schema, options, value, onChange, multiple, required } = props;
  const list = options.enumOptions ?? [];
  if (multiple) return <Several {...props} />;
  const { [labelsKey]: names, [fixedKey]: isFixed } = schema as Record<string, unknown>;
  const at = list.findIndex((option) => same(option.value, value));
  if (isFixed && at === 0) return <output id={props.id} className="Form-fixed mono">{label(list[0]?.value as Json)}</output>;
  return (
    <select
      {...describedBy(props)}
      className="Input Form-select"
      aria-required={required || undefined}
      value={at}
      onChange={(event) => onChange(list[Number(event.target.value)]?.value)}
    >
      {(at < 0 || !required) && <option value={-1}>{required ? "Choose…" : "not set"}</option>}
      {list.map((option, i) => (
        <option key={i} value={i}>{Array.isArray(names) ? String(names[i]) : label(option.value as Json)}</option>
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

/** A JSON field for values that have no suitable control. */
export function OtherField(props: FieldProps) {
  return (props.schema as Record<string, unknown>)[unsetKey] ? null : <JsonField {...props} />;
}

/** A JSON input. Invalid JSON blocks sending. */
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
      <textarea {...describedBy({ id, schema, rawErrors })} data-unreadable={wrong || undefined} aria-label={name} rows={2} className="Input Input-area mono" spellCheck={false} placeholder="JSON" value={text} onChange={(event) => change(event.target.value)} />
      {wrong && <p className="Field-error" role="status">Invalid JSON.</p>}
    </>
  );
}

function write(value: unknown): string {
  return value === undefined ? "" : JSON.stringify(value, null, 2);
}
