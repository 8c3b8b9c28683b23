import { Button } from "../../components/Button";
import { TextField } from "../../components/Field";
import { presets, type Range } from "./range";

type RangePickerProps = { range: Range; onChange: (since: string, until: string | undefined) => void };

/** Chooses the days: a few spans that end today, or any other. */
export function RangePicker({ range, onChange }: RangePickerProps) {
  const custom = range.choice === "custom";
  return (
    <div className="Spend-range">
      <div className="Spend-presets" role="group" aria-label="Time">
        {presets.map((preset) => (
          <Button key={preset.value} size="s" variant="quiet" aria-pressed={range.choice === preset.value} onClick={() => onChange(preset.value, undefined)}>{preset.label}</Button>
        ))}
        <Button size="s" variant="quiet" aria-pressed={custom} onClick={() => onChange(range.first, range.last)}>Other</Button>
      </div>
      {custom && (
        <>
          <TextField label="First day" labelHidden type="date" value={range.first} max={range.last} onChange={(first) => first && onChange(first, range.last)} />
          <span className="faint">to</span>
          <TextField label="Last day" labelHidden type="date" value={range.last} min={range.first} onChange={(last) => last && onChange(range.first, last)} />
        </>
      )}
    </div>
  );
}
