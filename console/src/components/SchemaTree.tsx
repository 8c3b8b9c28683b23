import { ChevronRight } from "lucide-react";
import { useMemo, useState } from "react";
import type { JsonObject } from "../api/types";
import { visible } from "../format/visible";
import { schemaTree, type SchemaNode } from "../schema/tree";
import { Badge } from "./Badge";
import "./SchemaTree.css";

/** A readable JSON Schema: properties with types, constraints and descriptions. */
export function SchemaTree({ schema, empty = "No arguments." }: { schema: JsonObject; empty?: string }) {
  const root = useMemo(() => schemaTree(schema), [schema]);
  const children = root.children();
  if (children.length === 0) return <p className="faint">{root.type === "object" ? empty : `Type: ${root.type}.`}</p>;
  return <Members nodes={children} depth={0} />;
}

function Members({ nodes, depth }: { nodes: SchemaNode[]; depth: number }) {
  return (
    <ul className={depth === 0 ? "SchemaTree" : "SchemaTree-members"}>
      {nodes.map((node, i) => (
        <Member key={i} node={node} depth={depth} />
      ))}
    </ul>
  );
}

function Member({ node, depth }: { node: SchemaNode; depth: number }) {
  const children = useMemo(() => node.children(), [node]);
  const [open, setOpen] = useState(depth < 1);
  return (
    <li className="SchemaTree-member">
      <div className="SchemaTree-line">
        {children.length > 0 ? (
          <button type="button" className="SchemaTree-fold" aria-expanded={open} aria-label={`Properties of ${node.name}`} onClick={() => setOpen(!open)}>
            <ChevronRight aria-hidden="true" />
          </button>
        ) : (
          <span className="SchemaTree-indent" />
        )}
        <code className="SchemaTree-name">{visible(node.name)}</code>
        <span className="SchemaTree-type">{node.type}</span>
        {node.required && <Badge tone="accent">required</Badge>}
        {node.deprecated && <Badge tone="warn">deprecated</Badge>}
        {node.constraints.map((word) => (
          <span key={word} className="SchemaTree-constraint" title={word}>{visible(word)}</span>
        ))}
        {node.byDefault !== undefined && <span className="SchemaTree-constraint">default {visible(node.byDefault)}</span>}
      </div>
      <About node={node} />
      {open && children.length > 0 && <Members nodes={children} depth={depth + 1} />}
    </li>
  );
}

function About({ node }: { node: SchemaNode }) {
  if (!node.description && !node.values && !node.note) return null;
  return (
    <div className="SchemaTree-about">
      {node.description && <p>{visible(node.description)}</p>}
      {node.values && (
        <p className="SchemaTree-values">
          {node.values.map((value) => (
            <code key={value}>{visible(value)}</code>
          ))}
        </p>
      )}
      {node.note && <p className="faint">{node.note}</p>}
    </div>
  );
}
