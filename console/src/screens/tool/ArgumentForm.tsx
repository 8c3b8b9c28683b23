import Form from "@rjsf/core/lib/components/Form.js";
import { englishStringTranslator, type Registry, type RJSFSchema, TranslatableString, type UiSchema } from "@rjsf/utils";
import { memo, useMemo } from "react";
import type { JsonObject } from "../../api/types";
import type { Fault } from "./check";
import { FieldFrame, ListFrame, ListItem, ObjectFrame, OptionalControl } from "./formParts";
import { ChoiceField } from "./ChoiceField";
import { OtherField, SelectWidget, SwitchWidget, TextWidget } from "./formWidgets";
import { fieldErrors } from "./issues";
import { validator } from "./validator";
import "../../components/Field.css";
import "./ArgumentForm.css";

type ArgumentFormProps = {
  /** A result of formSchema. */
  schema: JsonObject;
  args: JsonObject;
  faults: Fault[];
  /** The prefix of field IDs, to distinguish several forms. */
  prefix?: string;
  disabled?: boolean;
  onChange: (args: JsonObject) => void;
};

const templates = {
  FieldTemplate: FieldFrame,
  ObjectFieldTemplate: ObjectFrame,
  ArrayFieldTemplate: ListFrame,
  ArrayFieldItemTemplate: ListItem,
  OptionalDataControlsTemplate: OptionalControl,
};
const widgets = { TextWidget, TextareaWidget: TextWidget, SelectWidget, CheckboxWidget: SwitchWidget, UpDownWidget: TextWidget };
const fields = { FallbackField: OtherField, OneOfField: ChoiceField };
const look: UiSchema = { "ui:globalOptions": { enableOptionalDataFieldForType: ["object"] } };
const defaults = { emptyObjectFields: "skipEmptyDefaults", arrayMinItems: { populate: "never" } } as const;

// A new property starts with an empty name.
const words: Registry["translateString"] = (text, params) => (text === TranslatableString.NewStringDefault ? "" : englishStringTranslator(text, params));

/** A tool's arguments as a form. It shows errors but does not validate. */
function ArgumentForm({ schema, args, faults, prefix = "argument", disabled = false, onChange }: ArgumentFormProps) {
  const errors = useMemo(() => fieldErrors(faults), [faults]);
  return (
    <Form<unknown, RJSFSchema>
      tagName="div"
      className="Form"
      idPrefix={prefix}
      disabled={disabled}
      schema={schema as RJSFSchema}
      uiSchema={look}
      validator={validator}
      templates={templates}
      widgets={widgets}
      fields={fields}
      formData={args}
      extraErrors={errors}
      noValidate
      translateString={words}
      showErrorList={false}
      experimental_defaultFormStateBehavior={defaults}
      onChange={({ formData }) => onChange((formData ?? {}) as JsonObject)}
    >
      <></>
    </Form>
  );
}

export default memo(ArgumentForm);
