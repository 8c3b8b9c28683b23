import { CodeStatus } from "../../components/Badge";
import { Card } from "../../components/Card";
import { Time } from "../../components/Time";
import { duration } from "../../format";
import { visible } from "../../format/visible";
import type { Tried } from "./history";

/** What was tried in this tab; a press writes its arguments into the form again. */
export function TriedList({ tried, disabled, onTake }: { tried: Tried[]; disabled: boolean; onTake: (tried: Tried) => void }) {
  if (tried.length === 0) return null;
  return (
    <Card title="Tried in this tab" description="A press writes the arguments into the form again." flush>
      <ul>
        {tried.map((each) => (
          <li key={each.at}>
            <button type="button" className="TriedList-row" disabled={disabled} onClick={() => onTake(each)}>
              <span className="TriedList-code"><CodeStatus code={each.code} /></span>
              <code className="grow cut">{visible(JSON.stringify(each.args).slice(0, 200))}</code>
              <span className="faint small cut TriedList-gate">{each.gate}</span>
              <span className="small right TriedList-time">{duration(each.ms * 1e6)}</span>
              <span className="faint small right TriedList-time"><Time at={each.at} /></span>
            </button>
          </li>
        ))}
      </ul>
    </Card>
  );
}
