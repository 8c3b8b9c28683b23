import type { QueryOutcome } from "../../api/types";
import { Status, type Tone } from "../../components/Badge";

const outcomes: Record<QueryOutcome, [Tone, string, string]> = {
  answer: ["good", "Answered", "The agent answered the question."],
  capability_miss: ["warn", "No answer", "The agent's tools cannot answer the question. Nothing was charged."],
  failed: ["bad", "Failed", "The query failed. Nothing was charged."],
  running: ["info", "Running", "The agent is working on the question."],
  lost: ["bad", "Lost", "The replica that ran the query stopped before the query finished. Nothing was charged."],
};

/** The outcome of a query. */
export function OutcomeStatus({ outcome, error }: { outcome: QueryOutcome; error?: string }) {
  const [tone, word, meaning] = outcomes[outcome];
  return <Status tone={tone} title={error ? `${meaning} ${error}` : meaning}>{word}</Status>;
}

const stops: Record<string, string> = {
  end: "The model answered.",
  hook: "A hook returned the answer.",
  calls: "The call limit was reached.",
  turns: "The turn limit was reached.",
  time: "The time limit was almost reached.",
  tokens: "The token limit was reached.",
  money: "The model's cost limit was reached.",
  repeated: "The model repeated a call.",
  failing: "The calls kept failing.",
  malformed: "The model sent calls that could not be parsed.",
  refused: "The model declined to answer.",
};

/** Why a query ended. */
export const meaningOfStop = (stop: string): string => stops[stop] ?? stop;
