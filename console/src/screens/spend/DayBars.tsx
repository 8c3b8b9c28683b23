import { type KeyboardEvent, useState } from "react";
import { count, money, moneyShare } from "../../format";
import { dayWords } from "./range";
import { type Day, mostOf } from "./totals";

const labels = 5; // days that are named below

/**
 * What each day cost. Hover, or focus and the arrow keys, read out one day to the last
 * decimal; a table says the same to those who do not see it.
 */
export function DayBars({ days }: { days: Day[] }) {
  const [at, setAt] = useState<number>();
  const most = mostOf(days.map((day) => day.usd));
  const every = Math.ceil(days.length / labels);
  const day = at === undefined ? undefined : days[at];
  const press = (event: KeyboardEvent) => {
    const next = { ArrowLeft: (at ?? days.length) - 1, ArrowRight: (at ?? -1) + 1, Home: 0, End: days.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    setAt(Math.max(0, Math.min(days.length - 1, next)));
  };
  return (
    <figure className="DayBars" aria-label="Spent by day">
      <p className="DayBars-readout" aria-live="polite">
        {day ? <><span className="strong">{dayWords(day.day)}</span> {money(day.usd)} <span className="faint">for {count(day.charged)} of {count(day.calls)} calls</span></> : <span className="faint">at most {money(most)} on a day</span>}
      </p>
      <div className="DayBars-frame" role="img" aria-label="Spent by day. Use the arrow keys to read single days." tabIndex={0} onKeyDown={press} onBlur={() => setAt(undefined)} onPointerLeave={() => setAt(undefined)}>
        {days.map((each, i) => (
          <div key={each.day} className={i === at ? "DayBars-day DayBars-at" : "DayBars-day"} onPointerEnter={() => setAt(i)}>
            <div className="DayBars-bar" style={{ height: `${moneyShare(each.usd, most) * 100}%` }} />
          </div>
        ))}
      </div>
      <div className="DayBars-times" aria-hidden="true">
        {days.map((each, i) => <span key={each.day}>{i % every === Math.floor(every / 2) && <span>{dayWords(each.day)}</span>}</span>)}
      </div>
      <DayTable days={days} />
    </figure>
  );
}

function DayTable({ days }: { days: Day[] }) {
  return (
    <table className="unseen">
      <caption>Spent by day</caption>
      <thead><tr><th scope="col">Day</th><th scope="col">Spent</th><th scope="col">Calls</th></tr></thead>
      <tbody>
        {days.map((each) => (
          <tr key={each.day}><th scope="row">{dayWords(each.day)}</th><td>{money(each.usd)}</td><td>{count(each.calls)}</td></tr>
        ))}
      </tbody>
    </table>
  );
}
