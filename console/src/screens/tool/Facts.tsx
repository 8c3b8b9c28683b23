import { Link } from "@tanstack/react-router";
import { Pencil } from "lucide-react";
import { type ReactNode, useState } from "react";
import type { ToolDetail } from "../../api/types";
import { IconButton } from "../../components/Button";
import { duration, percent, plural, price } from "../../format";
import { visible } from "../../format/visible";
import { limitTexts } from "../catalog/limit";
import { useCanEdit } from "../toolset/Editable";
import { PriceDialog } from "./PriceDialog";

/** A tool's main properties. */
export function Facts({ tool }: { tool: ToolDetail }) {
  const limits = limitTexts(tool.rateLimit);
  return (
    <dl className="Facts">
      <Fact name="Source" note={tool.file ?? (tool.server ? undefined : tool.origin)}>
        {tool.server ? <Link to="/servers/$id" params={{ id: tool.server }}>{tool.server}</Link> : "Local"}
      </Fact>
      <Fact name="Mode" note={modeNote(tool)}>{tool.mode === "read" ? "Read" : "Write"}</Fact>
      <ToolPrice tool={tool} />
      <Fact name="Limits" note={limits.slice(1).join(", ") || undefined}>{limits[0] ?? "None"}</Fact>
      <Latency tool={tool} />
      <Fact name="Definition" note="in a prompt">{`≈ ${plural(tool.tokens, "token")}`}</Fact>
      <Fact name="Category" note={tool.surface && `surface ${tool.surface}`}>{visible(tool.category ?? "None")}</Fact>
      {tool.needs && tool.needs.length > 0 && <Fact name="Needs" note="required context">{visible(tool.needs.join(", "))}</Fact>}
    </dl>
  );
}

function ToolPrice({ tool }: { tool: ToolDetail }) {
  const [editing, setEditing] = useState(false);
  const canEdit = useCanEdit("prices");
  const free = price(tool.priceUsd) === "free";
  return (
    <Fact name="Price" note={free ? undefined : "at execute gates"}>
      {free ? "Free" : price(tool.priceUsd)}
      {canEdit && <IconButton className="Facts-edit" size="s" label="Change the price" icon={<Pencil />} onClick={() => setEditing(true)} />}
      {editing && <PriceDialog tool={tool} onClose={() => setEditing(false)} />}
    </Fact>
  );
}

function Latency({ tool }: { tool: ToolDetail }) {
  const { latency } = tool;
  const declared = tool.meta?.latencyClass !== undefined ? `declared ${tool.latencyClass}` : undefined; // tools that declare no class count as slow
  if (!latency || latency.calls === 0) return <Fact name="Latency" note={declared ?? "not measured yet"}>—</Fact>;
  return (
    <Fact name="Latency" note={[`p50 of ${plural(latency.calls, "call")}`, `p95 ${duration(latency.p95Ns)}`, `${percent(latency.errors, latency.calls)} failed`, declared].filter(Boolean).join(", ")}>
      {duration(latency.p50Ns)}
    </Fact>
  );
}

/** The reason why a tool is classified as read or write. */
function modeNote(tool: ToolDetail): string | undefined {
  const effects = tool.visibility.flatMap((at) => at.steps).find((step) => step.rule === "effects");
  if (effects) return effects.text;
  return tool.mode === "read" ? "declared read-only" : "not declared read-only";
}

function Fact({ name, note, children }: { name: string; note?: string | undefined; children: ReactNode }) {
  return (
    <div className="Facts-fact">
      <dt>{name}</dt>
      <dd className="Facts-value wrap-anywhere">{children}</dd>
      {note && <dd className="Facts-note wrap-anywhere" title={note.length > 120 ? visible(note) : undefined}>{visible(note)}</dd>}
    </div>
  );
}

