import { type KeyboardEvent, type PointerEvent, type ReactNode, useId, useLayoutEffect, useRef, useState } from "react";
import { labelledBands, ticksOf } from "./scale";
import "./charts.css";

export type Band = {
  key: string;
  /** The label below the bar: "15 Nov". */
  label: string;
  /** Shown while the band is selected. */
  readout: ReactNode;
  /** One value per series. */
  values: number[];
  /** The same band's total in the previous period. */
  previous?: number | undefined;
};

export type Series = { name: string; color: "ok" | "bad" | 1 | 2 | 3 | 4 | 5 | 6 };

type BandChartProps = {
  label: string;
  bands: Band[];
  series: Series[];
  /** Formats a tick on the y-axis. */
  tick: (value: number) => string;
  /** Restricts the ticks to integers. */
  whole?: boolean;
  height?: number;
  /** Shown beside the legend while no band is selected. */
  note?: ReactNode;
  /** The same data as a table, for screen readers. */
  table: { columns: string[]; rows: string[][] };
};

const below = 22; // pixels for the labels
const charWidth = 6.4; // pixels per character in the smallest text size

/**
 * Stacked bars on a band scale with a labelled y-axis. Each label is centered below its own bar.
 * Hovering, or the arrow keys, select a band.
 */
export function BandChart({ label, bands, series, tick, whole = false, height = 180, note, table }: BandChartProps) {
  const [at, setAt] = useState<number>();
  const [frame, width] = useWidth();
  const id = useId();
  const totals = bands.map((band) => band.values.reduce((sum, value) => sum + value, 0));
  const ticks = ticksOf(Math.max(0, ...totals, ...bands.map((band) => band.previous ?? 0)), { whole });
  const top = ticks.at(-1) ?? 1;
  const left = Math.ceil(Math.max(...ticks.map((value) => tick(value).length)) * charWidth) + 10;
  const step = Math.max(0, width - left) / Math.max(1, bands.length);
  const y = (value: number) => height - (value / top) * (height - 8);
  const move = (event: PointerEvent<SVGSVGElement>) => {
    const x = event.clientX - event.currentTarget.getBoundingClientRect().left - left;
    setAt(x < 0 ? undefined : bounded(Math.floor(x / step), bands.length));
  };
  const press = (event: KeyboardEvent) => {
    const next = { ArrowLeft: (at ?? bands.length) - 1, ArrowRight: (at ?? -1) + 1, Home: 0, End: bands.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    setAt(bounded(next, bands.length));
  };
  const labelWidth = Math.max(0, ...bands.map((band) => band.label.length)) * charWidth;
  return (
    <figure className="Band" aria-labelledby={id}>
      <figcaption id={id} className="unseen">{label}</figcaption>
      <div className="Band-head">
        <div className="Band-readout" aria-live="polite">{at === undefined ? note : bands[at]?.readout}</div>
        <Legend series={series} previous={bands.some((band) => band.previous !== undefined)} />
      </div>
      <div className="Band-frame" ref={frame} style={{ height: height + below }}>
        {width > 0 && (
          <svg width={width} height={height + below} tabIndex={0} role="img" aria-label={`${label}. Use the arrow keys to step through the bars.`} onPointerMove={move} onPointerLeave={() => setAt(undefined)} onKeyDown={press} onBlur={() => setAt(undefined)}>
            {ticks.map((value) => (
              <g key={value} aria-hidden="true">
                <line className="Band-line" x1={left} x2={width} y1={Math.round(y(value)) + 0.5} y2={Math.round(y(value)) + 0.5} />
                <text className="Band-tick" x={left - 8} y={y(value)} dy="0.32em" textAnchor="end">{tick(value)}</text>
              </g>
            ))}
            {at !== undefined && <rect className="Band-cursor" x={left + at * step} y={0} width={step} height={height} />}
            {bands.map((band, i) => <Bar key={band.key} band={band} series={series} x={left + i * step} step={step} y={y} height={height} />)}
            {labelledBands(bands.length, step, labelWidth).map((i) => (
              <text key={i} className="Band-label" data-band={i} x={left + (i + 0.5) * step} y={height + 16} textAnchor="middle" aria-hidden="true">{bands[i]?.label}</text>
            ))}
          </svg>
        )}
      </div>
      <DataTable label={label} {...table} />
    </figure>
  );
}

type BarProps = { band: Band; series: Series[]; x: number; step: number; y: (value: number) => number; height: number };

function Bar({ band, series, x, step, y, height }: BarProps) {
  const gap = step > 6 ? Math.min(step * 0.16, 10) : step > 3 ? 1 : 0;
  const wide = Math.min(step - 2 * gap, 56);
  const from = x + (step - wide) / 2;
  let base = 0;
  return (
    <g data-bar={band.key}>
      {band.previous !== undefined && band.previous > 0 && <rect className="Band-previous" x={x + Math.max(gap / 2, (step - wide) / 2 - 3)} width={Math.min(step - gap, wide + 6)} y={y(band.previous)} height={height - y(band.previous)} />}
      {band.values.map((value, i) => {
        const low = y(base);
        base += value;
        const tall = Math.max(low - y(base), value > 0 ? 1 : 0);
        return value > 0 && <rect key={i} className={`Band-${series[i]?.color ?? 6}`} x={from} width={wide} y={low - tall} height={tall} />;
      })}
    </g>
  );
}

function Legend({ series, previous }: { series: Series[]; previous: boolean }) {
  if (series.length < 2 && !previous) return null;
  return (
    <ul className="Band-legend" aria-label="Legend">
      {series.length > 1 && series.map(({ name, color }) => <li key={name}><span className={`Band-key Band-key-${color}`} /><span className="cut" title={name}>{name}</span></li>)}
      {previous && <li><span className="Band-key Band-key-previous" />Previous period</li>}
    </ul>
  );
}

function DataTable({ label, columns, rows }: { label: string; columns: string[]; rows: string[][] }) {
  return (
    <div className="unseen">
      <table>
        <caption>{label}</caption>
        <thead><tr>{columns.map((column) => <th key={column} scope="col">{column}</th>)}</tr></thead>
        <tbody>
          {rows.map(([head, ...cells]) => <tr key={head}><th scope="row">{head}</th>{cells.map((cell, i) => <td key={i}>{cell}</td>)}</tr>)}
        </tbody>
      </table>
    </div>
  );
}

/** Observes an element's width. */
function useWidth() {
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = frame.current;
    if (!element) return;
    const measure = () => setWidth(element.clientWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [frame, width] as const;
}

function bounded(i: number, length: number): number {
  return Math.max(0, Math.min(length - 1, i));
}
