import { Checkbox as BaseCheckbox } from "@base-ui/react/checkbox";
import { Switch as BaseSwitch } from "@base-ui/react/switch";
import { Check, Minus } from "lucide-react";
import type { ReactNode } from "react";
import "./Toggle.css";

type ToggleProps = { label: ReactNode; checked: boolean; onChange: (checked: boolean) => void; disabled?: boolean; labelHidden?: boolean };

export function Switch({ label, checked, onChange, disabled = false, labelHidden = false }: ToggleProps) {
  return (
    <label className="Toggle">
      <BaseSwitch.Root className="Switch" checked={checked} disabled={disabled} onCheckedChange={onChange}>
        <BaseSwitch.Thumb className="Switch-thumb" />
      </BaseSwitch.Root>
      <span className={labelHidden ? "unseen" : "Toggle-label"}>{label}</span>
    </label>
  );
}

export function Checkbox({ label, checked, onChange, disabled = false, labelHidden = false, indeterminate = false }: ToggleProps & { indeterminate?: boolean }) {
  return (
    <label className="Toggle">
      <BaseCheckbox.Root className="Checkbox" checked={checked} indeterminate={indeterminate} disabled={disabled} onCheckedChange={onChange}>
        <BaseCheckbox.Indicator className="Checkbox-mark">
          {indeterminate ? <Minus aria-hidden="true" /> : <Check aria-hidden="true" />}
        </BaseCheckbox.Indicator>
      </BaseCheckbox.Root>
      <span className={labelHidden ? "unseen" : "Toggle-label"}>{label}</span>
    </label>
  );
}
