import { CodeStatus } from "../../components/Badge";
import { Card } from "../../components/Card";
import { Time } from "../../components/Time";
import { duration } from "../../format";
import { visible } from "../../format/visible";
import type { PastRun } from "./runStorage";

/** Recent runs in this browser tab. Selecting one restores its arguments. */
export function RecentRuns({ runs, disabled, onSelect }: { runs: PastRun[]; disabled: boolean; onSelect: (runs: PastRun) => void }) {
  if (runs.length === 0) return null;
  return (
    <Card title="Recent runs" description="Select one to use its arguments again." flush>
      <ul>
        {runs.map((each) => (
          <li key={each.at}>
            <button type="button" className="RecentRuns-row" disabled={disabled} onClick={() => onSelect(each)}>
              <span className="RecentRuns-code"><CodeStatus code={each.code} /></span>
              <code className="grow cut">{visible(JSON.stringify(each.args).slice(0, 200))}</code>
              <span className="faint small cut RecentRuns-gate">{each.gate}</span>
              <span className="small right RecentRuns-time">{duration(each.ms * 1e6)}</span>
              <span className="faint small right RecentRuns-time"><Time at={each.at} /></span>
            </button>
          </li>
        ))}
      </ul>
    </Card>
  );
}
