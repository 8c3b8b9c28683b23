import type { ReactNode } from "react";
import "./Badge.css";

export type Tone = "neutral" | "good" | "warn" | "bad" | "info" | "accent";

/** A label in a box. The text alone must be sufficient; the color is only an aid. */
export function Badge({ tone = "neutral", title, children }: { tone?: Tone; title?: string; children: ReactNode }) {
  return (
    <span className={`Badge Badge-${tone}`} title={title}>
      {children}
    </span>
  );
}

const shapes: Record<Tone, ReactNode> = {
  good: <circle cx="6" cy="6" r="4.5" />,
  warn: <path d="M6 1.2 11.3 10.6H.7Z" />,
  bad: <path d="M6 .4 11.6 6 6 11.6.4 6Z" />,
  info: <circle cx="6" cy="6" r="3.8" fill="none" stroke="currentColor" strokeWidth="1.6" strokeDasharray="3 2" />,
  accent: <rect x="2" y="2" width="8" height="8" rx="2" />,
  neutral: <circle cx="6" cy="6" r="3.8" fill="none" stroke="currentColor" strokeWidth="1.6" />,
};

/** A status with redundant color, shape and text. */
export function Status({ tone, title, children }: { tone: Tone; title?: string; children: ReactNode }) {
  return (
    <span className={`Status Status-${tone}`} title={title}>
      <svg viewBox="0 0 12 12" width="10" height="10" fill="currentColor" aria-hidden="true">
        {shapes[tone]}
      </svg>
      <span className="cut">{children}</span>
    </span>
  );
}

const states: Record<string, [Tone, string]> = {
  up: ["good", "Up"],
  starting: ["info", "Starting"],
  down: ["bad", "Down"],
  active: ["good", "Active"],
  open: ["good", "Open"],
  closed: ["neutral", "Closed"],
  expired: ["warn", "Expired"],
  revoked: ["bad", "Revoked"],
  new: ["info", "New"],
  changed: ["warn", "Changed"],
  gone: ["neutral", "Gone"],
  refused: ["bad", "Refused"],
};

/** The state of a server, key, session or definition, from its API value. */
export function StateStatus({ state, title }: { state: string; title?: string }) {
  const [tone, word] = states[state] ?? ["neutral", state];
  return (
    <Status tone={tone} {...(title !== undefined && { title })}>
      {word}
    </Status>
  );
}

/** The outcome of a call, from its code. */
export function CodeStatus({ code }: { code: string }) {
  const tone: Tone = code === "OK" ? "good" : ["RATE_LIMITED", "CANCELED", "EXPIRED"].includes(code) ? "warn" : "bad";
  return (
    <Status tone={tone} title={code}>
      {code === "OK" ? "OK" : code.toLowerCase().replaceAll("_", " ")}
    </Status>
  );
}
