import "./charts.css";

type MeterProps = {
  label: string;
  /** From 0 to 1. */
  share: number;
  /** Such as "12 of 60". */
  text: string;
  /** The share from which the meter is amber; from 1 it is red. */
  warnFrom?: number;
};

/** The used share of a limit. */
export function Meter({ label, share, text, warnFrom = 0.8 }: MeterProps) {
  const part = Math.max(0, Math.min(1, share));
  const tone = part >= 1 ? "bad" : part >= warnFrom ? "warn" : "ok";
  return (
    <div className="Meter">
      <div className="Meter-track" role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(part * 100)} aria-valuetext={text}>
        <div className={`Meter-bar Meter-${tone}`} style={{ width: `${part * 100}%` }} />
      </div>
      <span className="Meter-text">{text}</span>
    </div>
  );
}
