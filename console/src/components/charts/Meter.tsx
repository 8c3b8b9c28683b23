import "./charts.css";

type MeterProps = {
  label: string;
  /** How full it is, from 0 to 1. */
  share: number;
  /** What it says: "12 of 60". */
  text: string;
  /** From here on it warns, and from 1 it is full. */
  warnFrom?: number;
};

/** How much of a limit is used, as a bar and in words. */
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
