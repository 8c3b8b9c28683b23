import "./Segments.css";

type SegmentsProps<V extends string> = { label: string; value: V; items: { value: V; label: string; count?: string | undefined }[]; onChange: (value: V) => void };

/** A segmented control. */
export function Segments<V extends string>({ label, value, items, onChange }: SegmentsProps<V>) {
  return (
    <div className="Segments" role="group" aria-label={label}>
      {items.map((item) => (
        <button key={item.value} type="button" className="Segments-item" aria-pressed={item.value === value} onClick={() => onChange(item.value)}>
          {item.label}
          {item.count !== undefined && <span className="Segments-count">{item.count}</span>}
        </button>
      ))}
    </div>
  );
}
