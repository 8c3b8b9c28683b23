import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useCallback, useEffect, useRef } from "react";

type PickListProps = {
  label: string;
  length: number;
  /** The height of a row in pixels. */
  height: number;
  keyOf: (i: number) => string | number;
  /** Called when the end of the list becomes visible. */
  onEnd?: () => void;
  children: (i: number) => ReactNode;
};

/** A virtualized list. */
export function PickList({ label, length, height, keyOf, onEnd, children }: PickListProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const estimateSize = useCallback(() => height, [height]);
  const lines = useVirtualizer({ count: length, getScrollElement: () => scroller.current, estimateSize, getItemKey: keyOf, overscan: 10 });
  const items = lines.getVirtualItems();
  const atEnd = (items.at(-1)?.index ?? 0) >= length - 20;
  useEffect(() => {
    if (atEnd) onEnd?.();
  }, [atEnd, length, onEnd]);
  return (
    <div ref={scroller} className="Toolset-scroll">
      <ul aria-label={label} style={{ height: lines.getTotalSize(), position: "relative" }}>
        {items.map((item) => (
          <li key={item.key} aria-setsize={length} aria-posinset={item.index + 1} className="Toolset-item" style={{ height, transform: `translateY(${item.start}px)` }}>
            {children(item.index)}
          </li>
        ))}
      </ul>
    </div>
  );
}
