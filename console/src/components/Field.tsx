import { type InputHTMLAttributes, type ReactNode, type TextareaHTMLAttributes, useId } from "react";
import "./Field.css";

export type ControlProps = { id: string; "aria-describedby": string | undefined; "aria-invalid": true | undefined };

type FieldProps = {
  label: ReactNode;
  hint?: ReactNode;
  error?: string | undefined;
  required?: boolean;
  /** Shows the label to screen readers only. */
  labelHidden?: boolean;
  children: (control: ControlProps) => ReactNode;
};

/** A control with its label, hint and error, linked for screen readers. */
export function Field({ label, hint, error, required = false, labelHidden = false, children }: FieldProps) {
  const id = useId();
  const about = [hint !== undefined && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(" ");
  return (
    <div className="Field">
      <label htmlFor={id} className={labelHidden ? "unseen" : "Field-label"}>
        {label}
        {required && <span className="Field-required" title="required"> *</span>}
      </label>
      {children({ id, "aria-describedby": about || undefined, "aria-invalid": error ? true : undefined })}
      {hint !== undefined && <p id={`${id}-hint`} className="Field-hint">{hint}</p>}
      {error && <p id={`${id}-error`} className="Field-error">{error}</p>}
    </div>
  );
}

type Common = Omit<FieldProps, "children">;
type TextFieldProps = Common & Omit<InputHTMLAttributes<HTMLInputElement>, "onChange" | "id"> & { onChange: (value: string) => void; mono?: boolean };

export function TextField({ label, hint, error, required, labelHidden, onChange, mono, ...rest }: TextFieldProps) {
  return (
    <Field {...common(label, hint, error, required, labelHidden)}>
      {(control) => (
        <input {...rest} {...control} required={required} className={mono ? "Input mono" : "Input"} onChange={(e) => onChange(e.target.value)} />
      )}
    </Field>
  );
}

type TextAreaProps = Common & Omit<TextareaHTMLAttributes<HTMLTextAreaElement>, "onChange" | "id"> & { onChange: (value: string) => void; mono?: boolean };

export function TextArea({ label, hint, error, required, labelHidden, onChange, mono, rows = 4, ...rest }: TextAreaProps) {
  return (
    <Field {...common(label, hint, error, required, labelHidden)}>
      {(control) => (
        <textarea {...rest} {...control} rows={rows} required={required} className={mono ? "Input Input-area mono" : "Input Input-area"} onChange={(e) => onChange(e.target.value)} />
      )}
    </Field>
  );
}

function common(label: ReactNode, hint: ReactNode, error: string | undefined, required = false, labelHidden = false): Common {
  return { label, error, required, labelHidden, ...(hint !== undefined && { hint }) };
}
