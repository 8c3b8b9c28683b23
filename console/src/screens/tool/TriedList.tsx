import { CodeStatus } from "../../components/Badge";
import { Card } from "../../components/Card";
import { Time } from "../../components/Time";
import { duration } from "../../format";
import { visible } from "../../format/visible";
import type { Tried } from "./history";

/** Recent runs in this tab; a click uses their arguments again. */
export function TriedList({ tried, disabled, onTake }: { tried: Tried[]; disabled: boolean; onTake: (tried: Tried) => void }) {
  if (tried.length === 0) return null;
  return (
    <Card title="Recent runs" description="Select one to use its arguments again." flush>
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
