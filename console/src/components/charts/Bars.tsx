import { type KeyboardEvent, type PointerEvent, useId, useState } from "react";
import { clock, shortCount } from "../../format";
import { niceTop } from "./scale";
import "./charts.css";

export type BarPoint = { at: string; ok: number; errors: number };

type BarsProps = {
  /** The name of the chart. */
  label: string;
  points: BarPoint[];
  height?: number;
  /** How a moment is written, on the axis and in the readout. */
  moment?: (at: string) => string;
  /** What one of the counted things is called. */
  unit?: string;
};

const width = 1000; // of the drawing; it is stretched to the room there is

/**
 * Counts over time, what went well below and what failed above. Hover, or focus and the arrow
 * keys, read out one bar; a table says the same to those who do not see it.
 */
export function Bars({ label, points, height = 160, moment = clock, unit = "calls" }: BarsProps) {
  const [at, setAt] = useState<number>();
  const id = useId();
  const top = niceTop(Math.max(0, ...points.map((point) => point.ok + point.errors)));
  const step = width / Math.max(1, points.length);
  const point = at === undefined ? undefined : points[at];
  const move = (event: PointerEvent<SVGSVGElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    setAt(bounded(Math.floor(((event.clientX - box.left) / box.width) * points.length), points.length));
  };
  const press = (event: KeyboardEvent) => {
    const next = { ArrowLeft: (at ?? points.length) - 1, ArrowRight: (at ?? -1) + 1, Home: 0, End: points.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    setAt(bounded(next, points.length));
  };
  return (
    <figure className="Bars" aria-labelledby={id}>
      <figcaption id={id} className="unseen">{label}</figcaption>
      <Readout point={point} moment={moment} unit={unit} />
      <div className="Bars-frame">
        <div className="Bars-axis" style={{ height: height + 12 }} aria-hidden="true">
          <span>{shortCount(top)}</span>
          <span>{shortCount(top / 2)}</span>
          <span>0</span>
        </div>
        <svg
          viewBox={`0 0 ${width} ${height}`}
          preserveAspectRatio="none"
          height={height}
          tabIndex={0}
          role="img"
          aria-label={`${label}. Use the arrow keys to read single bars.`}
          onPointerMove={move}
          onPointerLeave={() => setAt(undefined)}
          onKeyDown={press}
          onBlur={() => setAt(undefined)}
        >
          {[0, 0.5, 1].map((y) => (
            <line key={y} className="Bars-line" x1="0" x2={width} y1={y * (height - 1) + 0.5} y2={y * (height - 1) + 0.5} />
          ))}
          {at !== undefined && <rect className="Bars-cursor" x={at * step} y="0" width={step} height={height} />}
          {points.map((each, i) => (
            <Bar key={each.at} point={each} x={i * step + step * 0.12} width={step * 0.76} height={height} top={top} />
          ))}
        </svg>
      </div>
      <div className="Bars-times" aria-hidden="true">
        {ticks(points).map((tick) => (
          <span key={tick.at}>{moment(tick.at)}</span>
        ))}
      </div>
      <DataTable label={label} points={points} moment={moment} unit={unit} />
    </figure>
  );
}

function Bar({ point, x, width: wide, height, top }: { point: BarPoint; x: number; width: number; height: number; top: number }) {
  const tall = (n: number) => (n === 0 ? 0 : Math.max(1.5, (n / top) * height));
  const [ok, bad] = [tall(point.ok), tall(point.errors)];
  return (
    <>
      {ok > 0 && <rect className="Bars-ok" x={x} y={height - ok} width={wide} height={ok} />}
      {bad > 0 && <rect className="Bars-bad" x={x} y={height - ok - bad} width={wide} height={bad} />}
    </>
  );
}

function Readout({ point, moment, unit }: { point: BarPoint | undefined; moment: (at: string) => string; unit: string }) {
  return (
    <div className="Bars-readout" aria-live="polite">
      {point ? (
        <>
          <span className="strong">{moment(point.at)}</span>
          <span>{shortCount(point.ok + point.errors)} {unit}</span>
          {point.errors > 0 && <span className="bad">{shortCount(point.errors)} failed</span>}
        </>
      ) : (
        <>
          <span className="Bars-key Bars-key-ok">ok</span>
          <span className="Bars-key Bars-key-bad">failed</span>
        </>
      )}
    </div>
  );
}

function DataTable({ label, points, moment, unit }: { label: string; points: BarPoint[]; moment: (at: string) => string; unit: string }) {
  const busy = points.filter((point) => point.ok + point.errors > 0);
  return (
    <div className="unseen">
      <table>
        <caption>{label}{busy.length < points.length && "; times without any are left out"}</caption>
        <thead>
          <tr><th scope="col">Time</th><th scope="col">{unit}</th><th scope="col">failed</th></tr>
        </thead>
        <tbody>
          {busy.map((point) => (
            <tr key={point.at}><th scope="row">{moment(point.at)}</th><td>{point.ok + point.errors}</td><td>{point.errors}</td></tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function ticks(points: BarPoint[]): BarPoint[] {
  if (points.length < 2) return points;
  const wanted = Math.min(5, points.length);
  return Array.from({ length: wanted }, (_, i) => points[Math.round((i * (points.length - 1)) / (wanted - 1))]).filter((point) => point !== undefined);
}

function bounded(i: number, length: number): number {
  return Math.max(0, Math.min(length - 1, i));
}
