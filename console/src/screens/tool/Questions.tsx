import { ExternalLink, MessageCircleQuestion } from "lucide-react";
import { type FormEvent, type KeyboardEvent, lazy, Suspense, useEffect, useId, useMemo, useRef, useState } from "react";
import type { Answers, JsonObject } from "../../api/types";
import { Button } from "../../components/Button";
import { Skeleton } from "../../components/States";
import { plural } from "../../format";
import { visible } from "../../format/visible";
import { FormBoundary } from "./FormBoundary";
import { JsonEditor } from "./JsonEditor";
import { allOf, answersOf, checked, type Draft, draftOf, isTooLarge, pageOf, type Question, questionForm, questionsOf } from "./questions";
import type { OpenQuestion } from "./rounds";
import "./Questions.css";

const ArgumentForm = lazy(() => import("./ArgumentForm"));

type QuestionsProps = { tool: string; server: string | undefined; openQuestion: OpenQuestion; onAnswer: (answers: Answers) => void };

/** A tool's questions. The origin is always shown, because a tool could imitate the console. */
export function Questions({ tool, server, openQuestion, onAnswer }: QuestionsProps) {
  const id = useId();
  const questions = useMemo(() => questionsOf(openQuestion.inputRequired), [openQuestion]);
  const written = useDrafts(questions);
  const frame = useFocus();
  const accept = (event?: FormEvent) => {
    event?.preventDefault();
    const answers = written.finish();
    if (answers) onAnswer(answers);
  };
  const press = (event: KeyboardEvent) => {
    if (event.defaultPrevented || event.nativeEvent.isComposing) return;
    const isCancel = event.key === "Escape" && questions.length > 0 && !(event.target instanceof HTMLSelectElement); // Escape closes an open list first
    if (!isCancel && !(event.key === "Enter" && (event.ctrlKey || event.metaKey))) return;
    event.preventDefault();
    if (isCancel) onAnswer(allOf(questions, "cancel"));
    else accept();
  };
  return (
    <form ref={frame} className="Questions" noValidate tabIndex={-1} aria-labelledby={`${id}-who`} aria-describedby={questions.map((_, i) => `${id}-${i}`).join(" ") || undefined} onSubmit={accept} onKeyDown={press}>
      <Origin id={`${id}-who`} tool={tool} server={server} round={openQuestion.round} />
      {questions.map((question, i) => (
        <OneQuestion key={question.key} id={`${id}-${i}`} question={question} prefix={`question${i}`} draft={written.drafts[i] ?? draftOf(question)} alone={questions.length === 1} onChange={(draft) => written.change(i, draft)} />
      ))}
      {questions.length === 0 && <p className="soft">The tool is waiting to continue.</p>}
      <Foot questions={questions} fault={written.fault ?? openQuestion.refused} onAnswer={onAnswer} />
    </form>
  );
}

/** Focuses a new question, unless the user is typing elsewhere on the page. */
function useFocus() {
  const frame = useRef<HTMLFormElement>(null);
  useEffect(() => {
    const at = document.activeElement;
    if (at && at !== document.body && !at.closest(".TryIt, [role=dialog]")) return;
    frame.current?.focus({ preventScroll: true });
    const isBelow = matchMedia("(max-width: 1000px)").matches; // in one column, the arguments are above
    frame.current?.scrollIntoView({ block: isBelow ? "start" : "nearest" });
  }, []);
  return frame;
}

/** The answer drafts and their errors. */
function useDrafts(questions: Question[]) {
  const [drafts, setDrafts] = useState(() => questions.map(draftOf));
  const [tooLarge, setTooLarge] = useState(false);
  const wrong = drafts.reduce((sum, { faults }) => sum + faults.length, 0);
  const fault = wrong > 0 ? `${plural(wrong, "invalid value")}` : tooLarge ? "The answers are too large. The limit is 64 KiB." : undefined;
  const change = (at: number, draft: Draft) => setDrafts((old) => old.map((each, i) => (i === at ? draft : each)));
  /** Returns the answers, if all of them are valid. */
  const finish = (): Answers | undefined => {
    const next = questions.map((question, i) => checked(question, drafts[i] ?? draftOf(question)));
    const answers = answersOf(questions, next);
    const unsendable = isTooLarge(answers);
    setDrafts(next);
    setTooLarge(unsendable);
    return unsendable || next.some(({ faults }) => faults.length > 0) ? undefined : answers;
  };
  return { drafts, fault, change, finish };
}

function Origin({ id, tool, server, round }: { id: string; tool: string; server: string | undefined; round: number }) {
  return (
    <header className="Questions-who">
      <MessageCircleQuestion aria-hidden="true" />
      <div className="grow">
        <h3 id={id}><code className="wrap-anywhere">{visible(tool)}</code> needs{round > 1 && " more"} input</h3>
        <p className="soft small">{server ? <>Tool from server <code className="wrap-anywhere">{visible(server)}</code>.</> : "Local tool."} The tool wrote this text and receives your answer. Never enter a password or an API key.</p>
      </div>
    </header>
  );
}

type OneQuestionProps = { id: string; question: Question; prefix: string; draft: Draft; alone: boolean; onChange: (draft: Draft) => void };

/** One question. If there are several, each can be declined separately. */
function OneQuestion({ id, question, prefix, draft, alone, onChange }: OneQuestionProps) {
  const decline = (declined: boolean) => onChange({ ...draft, declined, faults: [] });
  const write = (content: JsonObject | undefined) => {
    const next = { ...draft, content: content ?? draft.content, readable: content !== undefined };
    onChange(draft.faults.length > 0 ? checked(question, next) : next);
  };
  return (
    <section className="Questions-one">
      <blockquote id={id} className="Questions-message" tabIndex={isLong(question.message) ? 0 : undefined}>{visible(question.message)}</blockquote>
      {draft.declined ? <p className="soft small">Declined.</p> : question.url !== undefined ? <PageLink url={question.url} /> : <Fields question={question} prefix={prefix} draft={draft} onChange={write} />}
      {!alone && <div><Button size="s" onClick={() => decline(!draft.declined)}>{draft.declined ? "Undo decline" : "Decline this one"}</Button></div>}
    </section>
  );
}

/** Reports whether a message needs its own scroll area, so that the origin stays visible. */
const isLong = (message: string) => message.length > 600 || message.split("\n").length > 10;

/** The full URL of a page that the tool asks to open. It opens only on a click. */
function PageLink({ url }: { url: string }) {
  const page = pageOf(url);
  if (!page) return <p className="bad small wrap-anywhere">Invalid URL: {visible(url)}</p>;
  const { address, host } = page;
  const [before = "", ...after] = address.split(host);
  return (
    <div className="Questions-page">
      <code className="wrap-anywhere">{before}<strong>{host}</strong>{visible(after.join(host))}</code>
      <a className="Button Button-plain Button-m" href={address} target="_blank" rel="noopener noreferrer" aria-label={`Open in a new tab: ${host}`}>
        <ExternalLink aria-hidden="true" /><span className="Button-text">Open in a new tab</span>
      </a>
    </div>
  );
}

type FieldsProps = { question: Question; prefix: string; draft: Draft; onChange: (content: JsonObject | undefined) => void };

/** A question's form, or a JSON editor if there is no form. */
function Fields({ question: { schema = {} }, prefix, draft, onChange }: FieldsProps) {
  const [failed, setFailed] = useState(false);
  const form = useMemo(() => questionForm(schema), [schema]);
  if (!form || failed) return <JsonEditor label="Answer as JSON" args={draft.content} faults={draft.faults} onChange={onChange} />;
  if (Object.keys(form.properties ?? {}).length === 0) return null;
  return (
    <FormBoundary onFail={() => setFailed(true)}>
      <Suspense fallback={<Skeleton lines={2} />}>
        <ArgumentForm schema={form} args={draft.content} faults={draft.faults} prefix={prefix} onChange={onChange} />
      </Suspense>
    </FormBoundary>
  );
}

type FootProps = { questions: Question[]; fault: string | undefined; onAnswer: (answers: Answers) => void };

function Foot({ questions, fault, onAnswer }: FootProps) {
  const all = questions.length > 1;
  return (
    <footer className="Questions-foot">
      {fault && <p className="bad small" role="alert">{fault}</p>}
      <div className="row-wrap">
        <Button type="submit" variant="primary">{isForm(questions) ? "Answer" : "Continue"}</Button>
        {questions.length > 0 && <Button onClick={() => onAnswer(allOf(questions, "decline"))}>{all ? "Decline all" : "Decline"}</Button>}
        {questions.length > 0 && <Button variant="quiet" onClick={() => onAnswer(allOf(questions, "cancel"))}>Cancel</Button>}
      </div>
      <p className="faint small">{footText(questions)}The question expires after 10 minutes.</p>
    </footer>
  );
}

const isForm = (questions: Question[]) => questions.some(({ schema }) => schema);

function footText(questions: Question[]): string {
  if (questions.length === 0) return "";
  const page = questions.some(({ url }) => url !== undefined) ? `“${isForm(questions) ? "Answer" : "Continue"}” confirms that you opened the page. ` : "";
  return `${page}Decline answers no; Cancel or Escape closes the question. `;
}
