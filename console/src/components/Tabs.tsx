import { Tabs as Base } from "@base-ui/react/tabs";
import { type ReactNode, useState } from "react";
import "./Tabs.css";

export type Tab = { id: string; label: string; count?: number; content: ReactNode; /** Keeps the panel mounted, with its form state, while another tab is open. */ keep?: boolean };

type TabsProps = { label: string; tabs: Tab[]; value?: string; onChange?: (id: string) => void };

/** Tabs. Pass value and onChange to store the open tab in the URL. */
export function Tabs({ label, tabs, value, onChange }: TabsProps) {
  const [seen, setSeen] = useState<ReadonlySet<string>>(new Set());
  if (value !== undefined && !seen.has(value)) setSeen(new Set([...seen, value]));
  const choice = value !== undefined ? { value } : { defaultValue: tabs[0]?.id };
  return (
    <Base.Root className="Tabs" {...choice} onValueChange={(next) => onChange?.(String(next))}>
      <Base.List className="Tabs-list" aria-label={label}>
        {tabs.map((tab) => (
          <Base.Tab key={tab.id} value={tab.id} className="Tabs-tab">
            {tab.label}
            {tab.count !== undefined && <span className="Tabs-count">{tab.count}</span>}
          </Base.Tab>
        ))}
      </Base.List>
      {tabs.map((tab) => (
        <Base.Panel key={tab.id} value={tab.id} className="Tabs-panel" keepMounted={tab.keep === true && seen.has(tab.id)}>
          {tab.content}
        </Base.Panel>
      ))}
    </Base.Root>
  );
}
