import { useId, type ReactNode } from "react";
import "./Card.css";

type CardProps = {
  title?: string;
  description?: ReactNode;
  actions?: ReactNode;
  /** Without inner space: for tables and lists that reach the edge. */
  flush?: boolean;
  children: ReactNode;
};

/** A part of a screen, with a heading of the second level. */
export function Card({ title, description, actions, flush = false, children }: CardProps) {
  const id = useId();
  return (
    <section className={flush ? "Card Card-flush" : "Card"} aria-labelledby={title ? id : undefined}>
      {(title || actions) && (
        <header className="Card-head">
          <div className="grow">
            {title && <h2 id={id}>{title}</h2>}
            {description && <p className="Card-description">{description}</p>}
          </div>
          {actions && <div className="row">{actions}</div>}
        </header>
      )}
      <div className="Card-body">{children}</div>
    </section>
  );
}

type StatProps = { label: string; value: ReactNode; note?: ReactNode; tone?: "good" | "warn" | "bad"; children?: ReactNode };

/** One number that matters, with its name, and room for a sparkline. */
export function Stat({ label, value, note, tone, children }: StatProps) {
  return (
    <div className="Stat">
      <dl>
        <dt className="Stat-label">{label}</dt>
        <dd className={tone ? `Stat-value ${tone}` : "Stat-value"}>{value}</dd>
        {note !== undefined && <dd className="Stat-note">{note}</dd>}
      </dl>
      {children}
    </div>
  );
}
