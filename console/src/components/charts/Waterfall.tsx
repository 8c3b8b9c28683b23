import { duration } from "../../format";
import "./charts.css";

export type Segment = { name: string; startNs: number; endNs: number; tone?: "ok" | "bad" | "quiet"; title?: string };

/** Consecutive steps on a common time axis. */
export function Waterfall({ label, segments, totalNs }: { label: string; segments: Segment[]; totalNs: number }) {
  const share = (ns: number) => (totalNs <= 0 ? 0 : Math.max(0, Math.min(100, (ns / totalNs) * 100)));
  return (
    <ol className="Waterfall" aria-label={label}>
      {segments.map((segment, i) => (
        <li key={i} className="Waterfall-line" title={segment.title}>
          <span className="Waterfall-name cut">{segment.name}</span>
          <span className="Waterfall-track" aria-hidden="true">
            <span
              className={`Waterfall-bar Waterfall-${segment.tone ?? "ok"}`}
              style={{ left: `${share(segment.startNs)}%`, width: `max(2px, ${share(segment.endNs - segment.startNs)}%)` }}
            />
          </span>
          <span className="Waterfall-time">{duration(segment.endNs - segment.startNs)}</span>
        </li>
      ))}
    </ol>
  );
}
