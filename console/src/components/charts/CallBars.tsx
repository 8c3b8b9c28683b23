import { count, percent, shortCount } from "../../format";
import { BandChart } from "./BandChart";
import "./charts.css";

export type CallPoint = { key: string; /** Below the bar. */ label: string; /** In the readout. */ title: string; ok: number; errors: number };

const series = [{ name: "Succeeded", color: "ok" }, { name: "Failed", color: "bad" }] as const;

/** Calls over time, with failed calls stacked on top. */
export function CallBars({ label, points, height = 160 }: { label: string; points: CallPoint[]; height?: number }) {
  const busy = points.filter((point) => point.ok + point.errors > 0);
  const peak = Math.max(0, ...points.map((point) => point.ok + point.errors));
  return (
    <BandChart
      label={label}
      height={height}
      whole
      series={[...series]}
      tick={shortCount}
      note={`Peak ${shortCount(peak)}`}
      bands={points.map((point) => ({ key: point.key, label: point.label, values: [point.ok, point.errors], readout: <Readout point={point} /> }))}
      table={{ columns: ["Time", "Calls", "Failed"], rows: busy.map((point) => [point.title, count(point.ok + point.errors), count(point.errors)]) }}
    />
  );
}

function Readout({ point: { title, ok, errors } }: { point: CallPoint }) {
  return (
    <>
      <span className="strong">{title}</span> {shortCount(ok + errors)} {ok + errors === 1 ? "call" : "calls"}
      {errors > 0 && <span className="bad"> · {shortCount(errors)} failed ({percent(errors, ok + errors)})</span>}
    </>
  );
}
