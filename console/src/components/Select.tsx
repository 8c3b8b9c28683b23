import { Select as Base } from "@base-ui/react/select";
import { Check, ChevronDown } from "lucide-react";
import "./Field.css";
import "./Select.css";

export type SelectItem<V extends string> = { value: V; label: string };

type SelectProps<V extends string> = {
  label: string;
  labelHidden?: boolean;
  value: V;
  onChange: (value: V) => void;
  items: SelectItem<V>[];
  disabled?: boolean;
  hint?: string;
};

/** A drop-down list. For an optional value, add an item with the value "". */
export function Select<V extends string>({ label, labelHidden = false, value, onChange, items, disabled = false, hint }: SelectProps<V>) {
  return (
    <div className="Field">
      <Base.Root items={items} value={value} disabled={disabled} onValueChange={(next) => onChange(next as V)}>
        <Base.Label className={labelHidden ? "unseen" : "Field-label"}>{label}</Base.Label>
        <Base.Trigger className="Select">
          <Base.Value className="cut" />
          <Base.Icon className="Select-icon"><ChevronDown aria-hidden="true" /></Base.Icon>
        </Base.Trigger>
        <Base.Portal>
          <Base.Positioner className="Select-positioner" sideOffset={4} alignItemWithTrigger={false}>
            <Base.Popup className="Select-popup">
              <Base.List className="Select-list">
                {items.map((item) => (
                  <Base.Item key={item.value} value={item.value} className="Select-item">
                    <Base.ItemText className="cut">{item.label}</Base.ItemText>
                    <Base.ItemIndicator className="Select-check"><Check aria-hidden="true" /></Base.ItemIndicator>
                  </Base.Item>
                ))}
              </Base.List>
            </Base.Popup>
          </Base.Positioner>
        </Base.Portal>
      </Base.Root>
      {hint && <p className="Field-hint">{hint}</p>}
    </div>
  );
}
