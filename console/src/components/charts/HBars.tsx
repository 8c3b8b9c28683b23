import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { RowLink } from "../Table";
import "./charts.css";

export type HBar = {
  key: string;
  name: string;
  /** Shown before the name in a faint color, such as a tool's server. */
  prefix?: string;
  /** The length of the bar; bad is its failed part. */
  value: number;
  bad?: number;
  text: ReactNode;
  link?: RowLink;
};

/** A horizontal bar chart for rankings. */
export function HBars({ label, bars }: { label: string; bars: HBar[] }) {
  const most = Math.max(...bars.map((bar) => bar.value), 1e-9);
  return (
    <ol className="HBars" aria-label={label}>
      {bars.map((bar) => (
        <li key={bar.key} className="HBars-line">
          <div className="HBars-name cut" title={[bar.prefix, bar.name].filter(Boolean).join(" / ")}>
            {bar.link ? <Link {...bar.link}><NameOf bar={bar} /></Link> : <NameOf bar={bar} />}
          </div>
          <div className="HBars-track" aria-hidden="true">
            <div className="HBars-bar" style={{ width: `${Math.max(0.5, (bar.value / most) * 100)}%` }}>
              {bar.bad !== undefined && bar.bad > 0 && <div className="HBars-bad" style={{ width: `${Math.max(2, (bar.bad / bar.value) * 100)}%` }} />}
            </div>
          </div>
          <div className="HBars-text">{bar.text}</div>
        </li>
      ))}
    </ol>
  );
}

function NameOf({ bar }: { bar: HBar }) {
  return (
    <>
      {bar.prefix && <span className="faint">{bar.prefix} / </span>}
      {bar.name}
    </>
  );
}
