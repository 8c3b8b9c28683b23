import "./charts.css";

/** A line chart with no axes. */
export function Sparkline({ values, label, width = 120, height = 28 }: { values: number[]; label: string; width?: number; height?: number }) {
  const most = Math.max(1, ...values);
  const x = (i: number) => (i / Math.max(1, values.length - 1)) * width;
  const y = (value: number) => height - 2 - (value / most) * (height - 4);
  const line = values.map((value, i) => `${i === 0 ? "M" : "L"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  return (
    <svg className="Sparkline" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" height={height} role="img" aria-label={label}>
      {values.length > 1 && <path className="Sparkline-area" d={`${line}L${width} ${height}L0 ${height}Z`} />}
      <path className="Sparkline-line" d={line} />
    </svg>
  );
}
