import { useId, type ReactNode } from "react";
import "./Card.css";

type CardProps = {
  title?: string;
  description?: ReactNode;
  actions?: ReactNode;
  /** No padding, for tables and lists. */
  flush?: boolean;
  /** One of several cards in a list. Their titles may be equal, so they are not landmarks. */
  item?: boolean;
  children: ReactNode;
};

/** A section of a screen with an h2 heading. */
export function Card({ title, description, actions, flush = false, item = false, children }: CardProps) {
  const id = useId();
  const Section = item ? "div" : "section";
  return (
    <Section className={flush ? "Card Card-flush" : "Card"} aria-labelledby={title && !item ? id : undefined}>
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
    </Section>
  );
}

type StatProps = { label: string; value: ReactNode; note?: ReactNode; tone?: "good" | "warn" | "bad"; children?: ReactNode };

/** A key figure with its label, and an optional sparkline. */
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
