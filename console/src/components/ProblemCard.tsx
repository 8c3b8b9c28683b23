import { Lightbulb } from "lucide-react";
import type { Problem } from "../api/types";
import { visible } from "../format/visible";
import "./ProblemCard.css";

/** A problem: subject, location, message and fix. */
export function ProblemCard({ problem }: { problem: Problem }) {
  const place = placeOf(problem);
  return (
    <article className="ProblemCard">
      <div className="ProblemCard-head">
        <h3 className="wrap-anywhere">{visible(problem.subject || problem.tool || problem.file || "Configuration")}</h3>
        {place && <code className="ProblemCard-place">{place}</code>}
      </div>
      <p className="wrap-anywhere">{visible(problem.message)}</p>
      {problem.frame && (
        <pre className="ProblemCard-frame" tabIndex={0} aria-label={place ? `Source at ${place}` : "Source"}>
          {problem.frame.split("\n").map((line, i) => (
            <span key={i} className={isCaret(line) ? "ProblemCard-caret" : undefined}>
              {visible(line)}
              {"\n"}
            </span>
          ))}
        </pre>
      )}
      {problem.fix && (
        <p className="ProblemCard-fix wrap-anywhere">
          <Lightbulb aria-hidden="true" />
          <span><span className="unseen">How to fix it: </span>{visible(problem.fix)}</span>
        </p>
      )}
    </article>
  );
}

/** The location as file:line:column; unknown parts are omitted. */
export function placeOf({ file, line, column }: Problem): string | undefined {
  if (!file) return undefined;
  return [file, line, line && column].filter(Boolean).join(":");
}

/** Reports whether a line in the source frame is the caret line. */
function isCaret(line: string): boolean {
  return /^[\s|>]*\^[\^~\s]*$/.test(line);
}
