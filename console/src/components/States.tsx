import { CircleAlert, RotateCw } from "lucide-react";
import type { ReactNode } from "react";
import { ApiError } from "../api/client";
import { Button } from "./Button";
import "./States.css";

type EmptyStateProps = { icon?: ReactNode; title: string; children?: ReactNode; action?: ReactNode };

/** A list's empty state: the reason, and what to do. */
export function EmptyState({ icon, title, children, action }: EmptyStateProps) {
  return (
    <div className="State">
      {icon && <div className="State-icon" aria-hidden="true">{icon}</div>}
      <p className="State-title">{title}</p>
      {children && <div className="State-text">{children}</div>}
      {action && <div className="State-action">{action}</div>}
    </div>
  );
}

type ErrorStateProps = { error: unknown; onRetry?: (() => void) | undefined; title?: string };

/** An error with its message and issues. */
export function ErrorState({ error, onRetry, title }: ErrorStateProps) {
  return (
    <div className="State State-error" role="alert">
      <div className="State-icon" aria-hidden="true"><CircleAlert /></div>
      <p className="State-title">{title ?? errorTitle(error)}</p>
      <div className="State-text wrap-anywhere"><ErrorText error={error} /></div>
      {onRetry && (
        <div className="State-action">
          <Button icon={<RotateCw />} onClick={onRetry}>Try again</Button>
        </div>
      )}
    </div>
  );
}

/** An inline error, for forms and dialogs. */
export function ErrorNote({ error }: { error: unknown }) {
  if (!error) return null;
  return (
    <div className="ErrorNote" role="alert">
      <CircleAlert aria-hidden="true" />
      <div className="grow wrap-anywhere"><ErrorText error={error} /></div>
    </div>
  );
}

function ErrorText({ error }: { error: unknown }) {
  const issues = error instanceof ApiError ? error.issues : [];
  return (
    <>
      <p>{error instanceof Error ? error.message : String(error)}</p>
      {issues.length > 0 && (
        <ul className="State-issues">
          {issues.map((issue, i) => (
            <li key={i}>
              {issue.path && <code>{issue.path}</code>} {issue.message}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function errorTitle(error: unknown): string {
  if (!(error instanceof ApiError)) return "Something went wrong";
  const { status } = error;
  if (status === 0) return "Cannot reach the yard";
  if (status === 401) return "Sign in again";
  if (status === 403) return "Not allowed";
  if (status === 404) return "Not found";
  if (status === 429) return "Too many requests";
  if (status === 503) return "Temporarily unavailable";
  return status >= 500 ? "Internal error" : "Invalid request";
}

/** A loading placeholder. */
export function Skeleton({ lines = 3, height }: { lines?: number; height?: number }) {
  if (height !== undefined) return <div className="Skeleton" style={{ height }} aria-hidden="true" />;
  return (
    <div className="Skeleton-lines" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, i) => <div key={i} className="Skeleton" />)}
    </div>
  );
}
