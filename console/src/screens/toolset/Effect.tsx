import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { ArrowRight, TriangleAlert } from "lucide-react";
import { previewToolset } from "../../api/actions";
import type { ToolsetPreview } from "../../api/types";
import { Card } from "../../components/Card";
import { ErrorNote, Skeleton } from "../../components/States";
import { count, plural, shortCount } from "../../format";
import { visible } from "../../format/visible";
import { bodyOf, type Selection } from "./selection";
import { useDelayed } from "../../useDelayed";
import "./Effect.css";

/** A selection's effect: its size, and the tools of each gate that uses it. */
export function Effect({ name, selection, dirty }: { name: string; selection: Selection; dirty: boolean }) {
  const requested = useDelayed(selection, 200);
  const { data, error, isFetching } = useQuery({
    queryKey: ["toolsets", "preview", name, requested],
    queryFn: ({ signal }) => previewToolset(name, bodyOf(requested), signal),
    placeholderData: keepPreviousData,
    staleTime: 10_000,
    retry: false,
  });
  const late = isFetching || requested !== selection;
  return (
    <Card title={dirty ? "Effect after saving" : "Effect"}>
      <div className={late && data ? "stack Effect-late" : "stack"} aria-busy={late}>
        <ErrorNote error={error} />
        {data ? !error && <Shown preview={data} /> : !error && <Skeleton lines={4} />}
      </div>
    </Card>
  );
}

function Shown({ preview }: { preview: ToolsetPreview }) {
  const most = Math.max(1, ...preview.gates.flatMap((gate) => [gate.before.tokens, gate.after.tokens]));
  return (
    <>
      <dl className="Effect-sums" aria-live="polite">
        <div><dt>Tools</dt><dd>{count(preview.count)}</dd></div>
        <div><dt title="Approximate size of the definitions in a prompt">Tokens</dt><dd>{count(preview.tokens)}</dd></div>
      </dl>
      {preview.gates.length === 0 ? <p className="soft">Not used by any gate.</p> : preview.gates.map((gate) => <GateEffect key={gate.gate} gate={gate} most={most} />)}
      {preview.problems.map((problem) => <ProblemLine key={problem} text={problem} />)}
    </>
  );
}

type GateChange = ToolsetPreview["gates"][number];

function GateEffect({ gate, most }: { gate: GateChange; most: number }) {
  const same = gate.added.length + gate.removed.length === 0 && gate.before.tokens === gate.after.tokens;
  return (
    <section className="Effect-gate" aria-label={`At gate ${gate.gate}`}>
      <div className="spread">
        <h3 className="cut" title={gate.gate}>{gate.gate}</h3>
        <span className="Effect-change">{same ? `${plural(gate.after.tools, "tool")}, unchanged` : <Arrow before={count(gate.before.tools)} after={plural(gate.after.tools, "tool")} />}</span>
      </div>
      <Bar name="now" tokens={gate.before.tokens} most={most} />
      {!same && <Bar name="new" tokens={gate.after.tokens} most={most} />}
      <Names sign="+" word="added" names={gate.added} />
      <Names sign="−" word="removed" names={gate.removed} />
    </section>
  );
}

function Arrow({ before, after }: { before: string; after: string }) {
  return (
    <>
      <span className="faint">{before}</span>
      <ArrowRight aria-label="becomes" />
      <span className="strong">{after}</span>
    </>
  );
}

function Bar({ name, tokens, most }: { name: "now" | "new"; tokens: number; most: number }) {
  return (
    <div className="Effect-bar">
      <span className="faint">{name}</span>
      <span className="Effect-track" aria-hidden="true"><span className={`Effect-${name}`} style={{ width: `${(tokens / most) * 100}%` }} /></span>
      <span className="Effect-tokens">{shortCount(tokens)} tokens</span>
    </div>
  );
}

const maxNames = 8;

function Names({ sign, word, names }: { sign: string; word: "added" | "removed"; names: string[] }) {
  if (names.length === 0) return null;
  return (
    <details className="Effect-names" open={names.length <= maxNames}>
      <summary>{sign}{count(names.length)} {word}</summary>
      <ul>
        {names.slice(0, 200).map((name) => <li key={name} className={`Effect-${word}`}><code>{visible(name)}</code></li>)}
        {names.length > 200 && <li className="faint">and {count(names.length - 200)} more</li>}
      </ul>
    </details>
  );
}

function ProblemLine({ text }: { text: string }) {
  return (
    <p className="Effect-problem wrap-anywhere">
      <TriangleAlert aria-hidden="true" />
      <span>{visible(text)}</span>
    </p>
  );
}
