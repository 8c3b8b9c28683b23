import { Menu as Base } from "@base-ui/react/menu";
import type { ReactElement, ReactNode } from "react";
import "./Menu.css";

export type MenuItem = { label: string; icon?: ReactNode; onSelect: () => void; danger?: boolean; disabled?: boolean };

/** A menu of actions. The trigger is a Button or an IconButton. */
export function Menu({ trigger, items }: { trigger: ReactElement<Record<string, unknown>>; items: MenuItem[] }) {
  return (
    <Base.Root>
      <Base.Trigger render={trigger} />
      <Base.Portal>
        <Base.Positioner sideOffset={4} align="end" className="Menu-positioner">
          <Base.Popup className="Menu">
            {items.map((item) => (
              <Base.Item key={item.label} disabled={item.disabled ?? false} className={item.danger ? "Menu-item bad" : "Menu-item"} onClick={item.onSelect}>
                {item.icon}
                {item.label}
              </Base.Item>
            ))}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}
