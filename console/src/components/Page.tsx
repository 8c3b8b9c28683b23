import { useEffect, type ReactNode } from "react";
import "./Page.css";

type PageProps = {
  title: string;
  /** Above the title, usually a link to the list. */
  above?: ReactNode;
  /** Beside the title, such as badges or a status. */
  beside?: ReactNode;
  description?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
};

/** A screen's page: title, description and actions. */
export function Page({ title, above, beside, description, actions, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Toolyard`;
  }, [title]);
  return (
    <div className="Page">
      <header className="Page-head">
        <div className="Page-words">
          {above && <div className="Page-above">{above}</div>}
          <div className="Page-title">
            <h1 className="cut" title={title}>{title}</h1>
            {beside}
          </div>
          {description && <p className="Page-description">{description}</p>}
        </div>
        {actions && <div className="Page-actions">{actions}</div>}
      </header>
      <div className="Page-body">{children}</div>
    </div>
  );
}
