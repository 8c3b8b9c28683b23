import { useState } from "react";
import type { ServerEvent } from "../../api/types";
import { Status, type Tone } from "../../components/Badge";
import { Button } from "../../components/Button";
import { Time } from "../../components/Time";
import { absolute, clock, duration, percent, plural } from "../../format";
import { visible } from "../../format/visible";
import { type MarkKind, type StateSpan, type Timeline, timeline, type TimelineMark, uptime } from "./timeline";
import "./TimelineView.css";

type TimelineViewProps = { events: ServerEvent[]; restarts: number; now: number };

/** A server's history as a band and as a list. */
export function TimelineView({ events, restarts, now }: TimelineViewProps) {
  const line = timeline(events, now);
  if (!line) return <p className="faint">No events yet.</p>;
  return (
    <div className="stack">
      <Band line={line} restarts={restarts} />
      <EventList events={events} />
    </div>
  );
}

function Band({ line, restarts }: { line: Timeline; restarts: number }) {
  const place = (at: number) => ((at - line.from) / (line.to - line.from)) * 100;
  const { known, up } = uptime(line);
  const words = known > 0 ? `Up ${percent(up, known)} of the last ${duration(known * 1e6)}` : "No data yet";
  return (
    <figure className="TimelineView">
      <figcaption className="TimelineView-words">
        <span>{words}, {plural(restarts, "restart")}</span>
        <span className="TimelineView-keys" aria-hidden="true">
          <span className="TimelineView-key TimelineView-up">up</span>
          <span className="TimelineView-key TimelineView-starting">starting</span>
          <span className="TimelineView-key TimelineView-down">down</span>
        </span>
      </figcaption>
      <div className="TimelineView-marks" aria-hidden="true">
        {line.marks.map((mark, i) => <MarkSign key={i} mark={mark} left={place(mark.at)} />)}
      </div>
      <div className="TimelineView-band" role="img" aria-label={`${words}. Details are in the list below.`}>
        {line.spans.map((each) => (
          <div key={each.from} className={`TimelineView-stretch TimelineView-${each.state}`} style={{ left: `${place(each.from)}%`, width: `${place(each.to) - place(each.from)}%` }} title={describeSpan(each)} />
        ))}
      </div>
      <div className="TimelineView-times" aria-hidden="true">
        <span>{momentOf(line.from, line)}</span>
        <span>{momentOf((line.from + line.to) / 2, line)}</span>
        <span>now</span>
      </div>
    </figure>
  );
}

function describeSpan({ state, from, to, text }: StateSpan): string {
  const words = state === "unknown" ? "Unknown" : eventLabels[state === "starting" ? "start" : state].word;
  return `${words} for ${duration((to - from) * 1e6)}, from ${absolute(new Date(from).toISOString())}${text ? `: ${visible(text)}` : ""}`;
}

const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

/** A label on the time axis, with the date if the axis spans several days. */
function momentOf(at: number, { from, to }: Timeline): string {
  return to - from > 20 * 3600 * 1000 ? day.format(at) : clock(new Date(at).toISOString());
}

const markShapes: Record<MarkKind, string> = {
  changed: "M6 .8 11.2 6 6 11.2.8 6Z",
  approved: "M1.2 6.4 4.6 9.8 10.8 2.6",
  rejected: "M2 2 10 10M10 2 2 10",
};

function MarkSign({ mark, left }: { mark: TimelineMark; left: number }) {
  return (
    <svg viewBox="0 0 12 12" className={`TimelineView-mark TimelineView-${mark.kind}`} style={{ left: `${left}%` }}>
      <title>{`${eventLabels[mark.kind].word}, ${absolute(new Date(mark.at).toISOString())}${mark.text ? `: ${visible(mark.text)}` : ""}`}</title>
      <path d={markShapes[mark.kind]} />
    </svg>
  );
}

const eventLabels: Record<ServerEvent["kind"], { tone: Tone; word: string }> = {
  up: { tone: "good", word: "Up" },
  down: { tone: "bad", word: "Down" },
  start: { tone: "info", word: "Starting" },
  changed: { tone: "warn", word: "Changed" },
  approved: { tone: "good", word: "Approved" },
  rejected: { tone: "neutral", word: "Rejected" },
};
const initialEvents = 12; // events shown at first

function EventList({ events }: { events: ServerEvent[] }) {
  const [all, setAll] = useState(false);
  const shown = all ? events : events.slice(0, initialEvents);
  return (
    <div className="stack-s">
      <ol className="TimelineView-list" aria-label="Events, newest first">
        {shown.map((event, i) => (
          <li key={`${event.at} ${i}`}>
            <span className="faint"><Time at={event.at} /></span>
            <Status tone={eventLabels[event.kind].tone}>{eventLabels[event.kind].word}</Status>
            <span className="wrap-anywhere soft">{visible(event.text ?? "")}</span>
          </li>
        ))}
      </ol>
      {events.length > shown.length && (
        <div><Button size="s" variant="quiet" onClick={() => setAll(true)}>Show all {events.length} events</Button></div>
      )}
    </div>
  );
}
