import { ChevronRight } from "lucide-react";
import { useState } from "react";
import type { Json, JsonObject } from "../api/types";
import { plural } from "../format";
import { visible } from "../format/visible";
import { CopyButton } from "./Code";
import "./JsonView.css";

const page = 100; // members shown at first, and added per click
const maxTextLength = 600; // characters before a string is truncated

type JsonViewProps = { value: Json; label?: string; /** The number of levels expanded at first. */ open?: number };

/** A JSON value as a tree. Collapsed nodes are not rendered, so large values are cheap. */
export function JsonView({ value, label = "JSON", open = 2 }: JsonViewProps) {
  return (
    <div className="JsonView" role="group" aria-label={label}>
      <div className="Code-copy"><CopyButton text={() => JSON.stringify(value, null, 2)} label="Copy JSON" /></div>
      <div className="JsonView-tree"><Node value={value} open={open} /></div>
    </div>
  );
}

type NodeProps = { name?: string; value: Json; open: number };

function Node({ name, value, open }: NodeProps) {
  if (typeof value === "object" && value !== null && Object.keys(value).length > 0) {
    return <Branch {...(name !== undefined && { name })} value={value} open={open} />;
  }
  return (
    <div className="JsonView-leaf">
      <Name name={name} />
      <Leaf value={value} />
    </div>
  );
}

function Branch({ name, value, open }: { name?: string; value: Json[] | JsonObject; open: number }) {
  const [shown, setShown] = useState(open > 0);
  const [limit, setLimit] = useState(page);
  const list = Array.isArray(value);
  const entries = Object.entries(value);
  return (
    <div>
      <button type="button" className="JsonView-fold" aria-expanded={shown} onClick={() => setShown(!shown)}>
        <ChevronRight aria-hidden="true" />
        <Name name={name} />
        <span className="faint">{list ? `[ ${plural(entries.length, "item")} ]` : `{ ${plural(entries.length, "property", "properties")} }`}</span>
      </button>
      {shown && (
        <div className="JsonView-members">
          {entries.slice(0, limit).map(([key, member]) => (
            <Node key={key} name={key} value={member} open={open - 1} />
          ))}
          {entries.length > limit && (
            <button type="button" className="JsonView-more" onClick={() => setLimit(limit + page)}>
              {plural(entries.length - limit, "more", "more")}
            </button>
          )}
        </div>
      )}
    </div>
  );
}

function Name({ name }: { name: string | undefined }) {
  if (name === undefined) return null;
  return <span className="JsonView-name">{visible(name)}: </span>;
}

function Leaf({ value }: { value: Json }) {
  const [whole, setWhole] = useState(false);
  if (typeof value === "string") {
    const cut = !whole && value.length > maxTextLength;
    return (
      <span className="JsonView-text">
        "{visible(cut ? value.slice(0, maxTextLength) : value)}
        {cut ? "…" : '"'}
        {cut && (
          <button type="button" className="JsonView-more" onClick={() => setWhole(true)}>
            {plural(value.length - maxTextLength, "more character")}
          </button>
        )}
      </span>
    );
  }
  const kind = value === null ? "null" : typeof value;
  return <span className={`JsonView-${kind}`}>{kind === "object" ? (Array.isArray(value) ? "[]" : "{}") : String(value)}</span>;
}
