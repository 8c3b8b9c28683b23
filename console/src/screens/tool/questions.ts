// A tool's questions and their answers. The yard guarantees that a question is a flat form or a
// URL, but does not validate answers. They are validated here, except for patterns, which the tool
// checks.
import { isObject, type Json, type JsonObject } from "../../api/json";
import type { Answers, InputRequired } from "../../api/types";
import { check, type Fault } from "./check";
import { formSchema, labelsKey, NotFormable, text, titleKey } from "./formSchema";

/** A question: a form to fill in, or a page to open. */
export type Question = { key: string; message: string; schema?: JsonObject; url?: string };

/** The answer so far. It is not readable while its JSON is invalid. */
export type Draft = { content: JsonObject; readable: boolean; declined: boolean; faults: Fault[] };

const maxAnswerBytes = 64 << 10; // the yard's limit for all answers

/** The questions in display order. */
export function questionsOf({ questions }: InputRequired): Question[] {
  return Object.entries(questions).map(([key, { message, schema, url }]) => {
    if (url !== undefined) return { key, message, url };
    return { key, message, schema: isObject(schema) ? schema : { type: "object" } };
  });
}

/** The initial answer, with the question's defaults. */
export function draftOf({ schema }: Question): Draft {
  const defaults = members(schema).flatMap(([name, member]) => (isObject(member) && member.default !== undefined ? [[name, member.default] as const] : []));
  return { content: Object.fromEntries(defaults), readable: true, declined: false, faults: [] };
}

/** Validates a draft. Declined answers are always valid. */
export function checked({ schema }: Question, draft: Draft): Draft {
  if (!schema || draft.declined) return { ...draft, faults: [] };
  if (!draft.readable) return { ...draft, faults: [{ path: [], message: "is not an object" }] };
  return { ...draft, faults: [...check(schema, draft.content), ...formatFaults(schema, draft.content)] };
}

/** The answers for the API. An accepted page has no content. */
export function answersOf(questions: Question[], drafts: Draft[]): Answers {
  return Object.fromEntries(questions.map(({ key, schema }, i) => {
    const draft = drafts[i];
    if (!draft || draft.declined) return [key, { action: "decline" }];
    return [key, { action: "accept", ...(schema && { content: draft.content }) }];
  }));
}

/** The same answer to all questions. */
export function allOf(questions: Question[], action: "decline" | "cancel"): Answers {
  return Object.fromEntries(questions.map(({ key }) => [key, { action }]));
}

/** Reports whether answers exceed the size limit. The yard would reject them, and the question could not be answered again. */
export function isTooLarge(answers: Answers): boolean {
  return new TextEncoder().encode(JSON.stringify(answers)).length > maxAnswerBytes;
}

/**
 * The form schema of a question, or undefined if it can only be answered as JSON. It is meant for
 * users who do not know the tool: fields are labeled by title, lists are checkboxes, and booleans
 * are Yes/No selections, since a switch would start with an implicit no.
 */
export function questionForm(schema: JsonObject): JsonObject | undefined {
  try {
    const untitled = members(schema).map(([name, member]) => [name, isObject(member) ? without(member, "title") : member] as const);
    const form = formSchema({ ...schema, properties: Object.fromEntries(untitled) });
    const fields = members(form).map(([name, field]) => [name, { ...(isObject(field) && promptField(field)), ...titled(schema, name) }] as const);
    return { ...form, properties: Object.fromEntries(fields) };
  } catch (cause) {
    if (cause instanceof NotFormable) return undefined;
    throw cause;
  }
}

function promptField(field: JsonObject): JsonObject {
  if (field.type === "boolean") return { ...without(field, "type"), enum: [true, false], [labelsKey]: ["Yes", "No"] };
  if (field.type === "array" && isObject(field.items) && Array.isArray(field.items.enum)) return { ...field, uniqueItems: true };
  return field;
}

function titled(schema: JsonObject, name: string): JsonObject {
  const member = isObject(schema.properties) ? schema.properties[name] : undefined;
  const title = isObject(member) ? text(member.title) : undefined;
  return title === undefined ? {} : { [titleKey]: title };
}

/** Normalizes a question's URL; undefined if it is not a web page. */
export function pageOf(url: string): { address: string; host: string } | undefined {
  if (!URL.canParse(url)) return undefined;
  const { protocol, href, host, username, password } = new URL(url);
  return /^https?:$/.test(protocol) && username === "" && password === "" ? { address: href, host } : undefined;
}

const formats: Record<string, { fits: (text: string) => boolean; message: string }> = {
  email: { fits: (text) => /^[^\s@]+@[^\s@]+$/.test(text), message: "must be an email address such as ann@example.com" },
  uri: { fits: (text) => URL.canParse(text), message: "must be a URL such as https://example.com" },
  date: { fits: isDate, message: "must be a date such as 2026-01-31" },
  "date-time": { fits: isTime, message: "must be a time such as 2026-01-31T09:30:00Z" },
};

/** The format errors. Questions can use only these four formats. */
function formatFaults(schema: JsonObject, content: JsonObject): Fault[] {
  return members(schema).flatMap(([name, member]) => {
    const value = Object.hasOwn(content, name) ? content[name] : undefined;
    const rule = isObject(member) && typeof member.format === "string" && Object.hasOwn(formats, member.format) ? formats[member.format] : undefined;
    return rule && typeof value === "string" && !rule.fits(value) ? [{ path: [name], message: rule.message }] : [];
  });
}

function isDate(text: string): boolean {
  const at = new Date(`${text}T00:00:00Z`);
  return /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(at.getTime()) && at.toISOString().startsWith(text);
}

function isTime(text: string): boolean {
  const [, day, rest] = /^(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:[Zz]|[+-]\d{2}:\d{2}))$/.exec(text) ?? [];
  return day !== undefined && isDate(day) && !Number.isNaN(Date.parse(`${day}T${rest?.toUpperCase()}`));
}

function members(schema: JsonObject | undefined): [string, Json][] {
  return isObject(schema?.properties) ? Object.entries(schema.properties) : [];
}

function without(schema: JsonObject, left: string): JsonObject {
  return Object.fromEntries(Object.entries(schema).filter(([name]) => name !== left));
}
