import { Lock } from "lucide-react";
import { useMe } from "../../session";
import "./Editable.css";

type Part = "toolsets" | "gates";

/** Whether who is signed in may change toolsets or gates here. */
export function useMayEdit(part: Part): boolean {
  const me = useMe();
  return me?.role === "operator" && me.edits.includes(part);
}

/** Says why something is to be read only, and what would have to be said for it not to be. */
export function ReadOnlyNote({ part }: { part: Part }) {
  const me = useMe();
  if (!me || (me.role === "operator" && me.edits.includes(part))) return null;
  return (
    <p className="ReadOnlyNote">
      <Lock aria-hidden="true" />
      {me.edits.includes(part) ? (
        <span>You can look at everything here. Changing it takes a key with the scope <code>operator</code>.</span>
      ) : (
        <span>These {part} are as the configuration file says. To let operators change them here, say <code>edits: [{part}]</code> in <code>toolyard.yaml</code>.</span>
      )}
    </p>
  );
}
