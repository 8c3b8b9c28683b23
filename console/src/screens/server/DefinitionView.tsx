import { TriangleAlert } from "lucide-react";
import type { Json, PendingTool } from "../../api/types";
import { Code } from "../../components/Code";
import { Diff, JsonDiff } from "../../components/Diff";
import { stableJson } from "../../diff/lines";
import { count } from "../../format";
import { visible } from "../../format/visible";
import { hidesText, inShort, parts } from "./judging";
import "./DefinitionView.css";

/** What was approved of a tool and what is offered now, to be read before somebody decides. */
export function DefinitionView({ pending }: { pending: PendingTool }) {
  const { kind, approved, offered, refused } = pending;
  return (
    <div className="stack">
      {refused && <Warning text={`It cannot be approved: ${visible(refused)}`} />}
      {hidesText(offered) && <Warning text="It holds characters that cannot be seen. They are written out here, such as ⟨U+200B⟩; a model reads what they hide." />}
      {kind === "changed" && <Changed pending={pending} />}
      {kind === "new" && offered !== undefined && <Whole definition={offered} label="Offered definition" />}
      {kind === "gone" && (
        <>
          <p className="soft">The server does not offer it any more. This was approved:</p>
          {approved !== undefined && <Whole definition={approved} label="Approved definition" />}
        </>
      )}
      {kind === "refused" && approved !== undefined && (
        <>
          <p className="soft">This was approved before:</p>
          <Whole definition={approved} label="Approved definition" />
        </>
      )}
      {kind === "refused" && offered !== undefined && <Whole definition={offered} label="Offered definition" />}
    </div>
  );
}

function Warning({ text }: { text: string }) {
  return (
    <p className="DefinitionView-warning wrap-anywhere">
      <TriangleAlert aria-hidden="true" />
      <span>{text}</span>
    </p>
  );
}

function Changed({ pending }: { pending: PendingTool }) {
  const [before, after] = [parts(pending.approved), parts(pending.offered)];
  const titles = { beforeTitle: "Approved", afterTitle: "Offered now" };
  return (
    <>
      <Changes pending={pending} />
      <section className="stack-s">
        <h3 className="DefinitionView-part">Description</h3>
        {before.text === after.text ? <Description text={after.text} /> : <Diff label="Description" {...titles} before={before.text} after={after.text} />}
      </section>
      <section className="stack-s">
        <h3 className="DefinitionView-part">Schema and the rest</h3>
        {before.text === after.text && stableJson(before.rest) === stableJson(after.rest) ? (
          <>
            <Warning text="They differ in digits that a browser does not keep. This is their text, to the last digit." />
            <Diff label="Definition as text" {...titles} before={pending.approvedText ?? ""} after={pending.offeredText ?? ""} />
          </>
        ) : (
          <JsonDiff label="Schema and the rest" {...titles} before={before.rest} after={after.rest} />
        )}
      </section>
    </>
  );
}

const few = 30; // differences that are listed

function Changes({ pending: { changes = [] } }: { pending: PendingTool }) {
  if (changes.length === 0) return null;
  return (
    <section className="stack-s">
      <h3 className="DefinitionView-part">What differs</h3>
      <ul className="DefinitionView-changes">
        {changes.slice(0, few).map((change) => (
          <li key={change.path}>
            <code className="wrap-anywhere strong">{visible(change.path || "all of it")}</code>
            <span className="DefinitionView-values">
              {change.old !== undefined && <del><span className="unseen">was </span>{inShort(change.old)}</del>}
              {change.new !== undefined && <ins><span className="unseen">is now </span>{inShort(change.new)}</ins>}
              {change.old === undefined && <span className="faint">added</span>}
              {change.new === undefined && <span className="faint">removed</span>}
            </span>
          </li>
        ))}
      </ul>
      {changes.length > few && <p className="faint">{count(changes.length - few)} more differ. The comparison below has all of them.</p>}
    </section>
  );
}

function Whole({ definition, label }: { definition: Json; label: string }) {
  const { text, rest } = parts(definition);
  return (
    <>
      <section className="stack-s">
        <h3 className="DefinitionView-part">Description</h3>
        <Description text={text} />
      </section>
      <section className="stack-s">
        <h3 className="DefinitionView-part">Schema and the rest</h3>
        <Code text={stableJson(rest)} label={label} wrap />
      </section>
    </>
  );
}

function Description({ text }: { text: string }) {
  if (text === "") return <p className="faint">It has no description.</p>;
  return <p className="DefinitionView-text">{visible(text)}</p>;
}
