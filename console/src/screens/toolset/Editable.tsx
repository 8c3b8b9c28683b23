import { Lock } from "lucide-react";
import { useMe } from "../../session";
import "./Editable.css";

type Part = "toolsets" | "gates" | "prices";

/** Reports whether the signed-in caller may edit a part of the configuration. */
export function useCanEdit(part: Part): boolean {
  const me = useMe();
  return me?.role === "operator" && me.edits.includes(part);
}

/** Explains why the page is read-only, and how to change that. */
export function ReadOnlyNote({ part }: { part: Part }) {
  const me = useMe();
  if (!me || (me.role === "operator" && me.edits.includes(part))) return null;
  return (
    <p className="ReadOnlyNote">
      <Lock aria-hidden="true" />
      {me.edits.includes(part) ? (
        <span>Read-only: editing requires a key with the <code>operator</code> scope.</span>
      ) : (
        <span>Read-only: {part} are defined in the configuration file. To edit them here, set <code>editable: [{part}]</code> in <code>toolyard.yaml</code>.</span>
      )}
    </p>
  );
}
