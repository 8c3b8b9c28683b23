import { TextField } from "../../components/Field";
import { Segments } from "../../components/Segments";
import { presets, type Range } from "./range";

type RangePickerProps = { range: Range; onChange: (since: string, until: string | undefined) => void };

const items = [...presets.map(({ value, label }) => ({ value, label })), { value: "custom", label: "Custom" }];

/** Selects a preset or custom period. */
export function RangePicker({ range, onChange }: RangePickerProps) {
  const choose = (value: string) => (value === "custom" ? onChange(range.first, range.last) : onChange(value, undefined));
  return (
    <div className="Spend-range">
      <Segments label="Period" value={range.choice} items={items} onChange={choose} />
      {range.choice === "custom" && (
        <div className="row">
          <TextField label="First day" labelHidden type="date" value={range.first} max={range.last} onChange={(first) => first && onChange(first, range.last)} />
          <span className="faint">to</span>
          <TextField label="Last day" labelHidden type="date" value={range.last} min={range.first} onChange={(last) => last && onChange(range.first, last)} />
        </div>
      )}
    </div>
  );
}
