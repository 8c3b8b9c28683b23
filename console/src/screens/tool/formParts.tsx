// Templates for the generated form: labels, groups and lists.
import {
  ADDITIONAL_PROPERTY_FLAG,
  type ArrayFieldItemTemplateProps,
  type ArrayFieldTemplateProps,
  type FieldTemplateProps,
  type ObjectFieldTemplateProps,
  type OptionalDataControlsTemplateProps,
  type WrapIfAdditionalTemplateProps,
} from "@rjsf/utils";
import { ArrowDown, ArrowUp, Plus, Trash2, X } from "lucide-react";
import type { ReactNode } from "react";
import { Badge } from "../../components/Badge";
import { Button, IconButton } from "../../components/Button";
import { visible } from "../../format/visible";
import { hintKey, titleKey } from "./formSchema";
import { errorId, hintId } from "./formWidgets";

/** One field: label, help, control and errors. */
export function FieldFrame(props: FieldTemplateProps) {
  const { id, schema, children, hidden, rawErrors, fieldPathId } = props;
  if (hidden) return <div hidden>{children}</div>;
  const isItem = typeof fieldPathId.path.at(-1) === "number";
  const isRoot = fieldPathId.path.length === 0;
  const isGroup = schema.type === "object" || (schema.type === "array" && !schema.uniqueItems);
  const isToggle = schema.type === "boolean" && !schema.enum;
  const body = (
    <>
      {children}
      {!isGroup && <Help id={id} schema={schema} />}
      <Faults id={id} faults={rawErrors} />
    </>
  );
  if (isRoot || isGroup) return <Additional {...props}><div className="Form-wrap">{body}</div></Additional>;
  const title = (schema as Record<string, unknown>)[titleKey];
  const label = isItem ? `Item ${Number(fieldPathId.path.at(-1)) + 1}` : visible(String(fieldPathId.path.at(-1)));
  if (schema.oneOf) return <Additional {...props}><Group label={label} required={props.required}>{body}</Group></Additional>;
  return (
    <Additional {...props}>
      <div className={isToggle ? "Form-field Form-toggle" : "Form-field"}>
        <FieldLabel id={id} label={typeof title === "string" ? title : <code>{label}</code>} hidden={isItem || ADDITIONAL_PROPERTY_FLAG in schema} required={props.required === true && !isItem} deprecated={schema.deprecated === true} />
        {body}
      </div>
    </Additional>
  );
}

type FieldLabelProps = { id: string; label: ReactNode; hidden: boolean; required: boolean; deprecated: boolean };

function FieldLabel({ id, label, hidden, required, deprecated }: FieldLabelProps) {
  return (
    <label htmlFor={id} id={`${id}__label`} className={hidden ? "unseen" : "Form-label"}>
      {label}
      {required && <span className="Field-required" title="required"> *</span>}
      {deprecated && <Badge tone="warn">deprecated</Badge>}
    </label>
  );
}

/** The description and constraints of a field. */
function Help({ id, schema }: { id: string; schema: FieldTemplateProps["schema"] }) {
  const hint = (schema as Record<string, unknown>)[hintKey];
  if (!schema.description && !hint) return null;
  return (
    <div id={hintId(id)} className="Form-words">
      {schema.description && <p>{schema.description}</p>}
      {typeof hint === "string" && <p className="Form-hint">{hint}</p>}
    </div>
  );
}

function Faults({ id, faults }: { id: string; faults: string[] | undefined }) {
  if (!faults || faults.length === 0) return null;
  return <p id={errorId(id)} className="Field-error">{[...new Set(faults)].map(visible).join("; ")}</p>;
}

type GroupProps = { label: string; required?: boolean | undefined; aside?: ReactNode; children: ReactNode };

function Group({ label, required = false, aside, children }: GroupProps) {
  return (
    <fieldset className="Form-group">
      <legend className="unseen">{label}</legend>
      <div className="Form-head">
        <span className="Form-label" aria-hidden="true"><code>{label}</code>{required && <span className="Field-required" title="required"> *</span>}</span>
        {aside}
      </div>
      {children}
    </fieldset>
  );
}

/** The properties of an object. The root object has no frame. */
export function ObjectFrame({ fieldPathId, title, schema, properties, required, optionalDataControl, onAddProperty, registry }: ObjectFieldTemplateProps) {
  const members = (
    <>
      {properties.map((property) => property.content)}
      {schema.additionalProperties && !(optionalDataControl && properties.length === 0 && !isPresent(optionalDataControl)) && (
        <div><Button size="s" icon={<Plus />} onClick={onAddProperty}>Add a property</Button></div>
      )}
    </>
  );
  if (fieldPathId.path.length === 0) return <div className="Form-members">{members}</div>;
  const index = fieldPathId.path.at(-1);
  return (
    <Group label={typeof index === "number" ? `Item ${index + 1}` : visible(String(index ?? title))} required={typeof index !== "number" && required} aside={registry && optionalDataControl}>
      <Help id={fieldPathId.$id} schema={schema} />
      <div className="Form-members">{members}</div>
    </Group>
  );
}

/** Reports whether an optional object is present, in which case its control removes it. */
function isPresent(control: ReactNode): boolean {
  const props = (control as { props?: { formData?: unknown } }).props;
  return props?.formData !== undefined;
}

/** The button that adds or removes an optional object. */
export function OptionalControl({ id, onAddClick, onRemoveClick }: OptionalDataControlsTemplateProps) {
  if (onAddClick) return <Button id={id} size="s" icon={<Plus />} onClick={onAddClick}>Add</Button>;
  if (onRemoveClick) return <Button id={id} size="s" variant="quiet" icon={<X />} onClick={onRemoveClick}>Remove</Button>;
  return null;
}

export function ListFrame({ fieldPathId, title, schema, items, canAdd, onAddClick, required }: ArrayFieldTemplateProps) {
  const index = fieldPathId.path.at(-1);
  const name = typeof index === "number" ? `Item ${index + 1}` : visible(String(index ?? title));
  return (
    <Group
      label={name}
      required={typeof index !== "number" && required}
      aside={canAdd && <Button size="s" icon={<Plus />} aria-label={`Add an item to ${name}`} onClick={onAddClick}>Add</Button>}
    >
      <Help id={fieldPathId.$id} schema={schema} />
      {items.length > 0 && <div className="Form-members">{items}</div>}
    </Group>
  );
}

export function ListItem({ children, buttonsProps, hasToolbar, index }: ArrayFieldItemTemplateProps) {
  const { hasMoveUp, hasMoveDown, hasRemove, onMoveUpItem, onMoveDownItem, onRemoveItem } = buttonsProps;
  const name = `item ${index + 1}`;
  return (
    <div className="Form-item">
      <div className="grow">{children}</div>
      {hasToolbar && (
        <div className="Form-tools">
          {(hasMoveUp || hasMoveDown) && <IconButton size="s" label={`Move ${name} up`} icon={<ArrowUp />} disabled={!hasMoveUp} onClick={onMoveUpItem} />}
          {(hasMoveUp || hasMoveDown) && <IconButton size="s" label={`Move ${name} down`} icon={<ArrowDown />} disabled={!hasMoveDown} onClick={onMoveDownItem} />}
          {hasRemove && <IconButton size="s" label={`Remove ${name}`} icon={<Trash2 />} onClick={onRemoveItem} />}
        </div>
      )}
    </div>
  );
}

/** A property that is not in the schema, with an editable name. */
function Additional({ children, ...props }: WrapIfAdditionalTemplateProps) {
  const { id, schema, label, onKeyRenameBlur, onRemoveProperty } = props;
  if (!(ADDITIONAL_PROPERTY_FLAG in schema)) return children;
  return (
    <div className="Form-pair">
      <input key={label} id={`${id}-key`} className="Input mono" aria-label="Property name" defaultValue={label} onBlur={onKeyRenameBlur} />
      <div className="grow">{children}</div>
      <IconButton size="s" label={`Remove ${label}`} icon={<Trash2 />} onClick={onRemoveProperty} />
    </div>
  );
}
