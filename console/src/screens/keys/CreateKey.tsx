import { useMutation, useQueryClient } from "@tanstack/react-query";
import { TriangleAlert } from "lucide-react";
import { type FormEvent, useState } from "react";
import { createKey } from "../../api/actions";
import type { NewKey } from "../../api/types";
import { Button } from "../../components/Button";
import { Code } from "../../components/Code";
import { Dialog } from "../../components/Dialog";
import { ErrorNote } from "../../components/States";
import { emptyDraft, isComplete, KeyForm, type KeyDraft } from "./KeyForm";
import { scopesOf } from "./scopes";

/** Creates a key and shows its token once. */
export function CreateKey({ onClose }: { onClose: () => void }) {
  const client = useQueryClient();
  const [draft, setDraft] = useState<KeyDraft>(emptyDraft);
  const make = useMutation({
    gcTime: 0,
    mutationFn: () => createKey({ name: draft.name.trim(), caller: draft.caller, account: draft.account || undefined, scopes: scopesOf(draft), ttl: draft.ttl || undefined }),
    onSuccess: () => client.invalidateQueries({ queryKey: ["keys"] }),
  });
  if (make.data) return <Token made={make.data} onClose={onClose} />;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (isComplete(draft)) make.mutate();
  };
  return (
    <Dialog open onClose={onClose} title="Create key">
      <form className="stack" onSubmit={submit}>
        <KeyForm draft={draft} onChange={setDraft} />
        <ErrorNote error={make.error} />
        <div className="Keys-buttons">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="primary" busy={make.isPending} disabled={!isComplete(draft)}>Create key</Button>
        </div>
      </form>
    </Dialog>
  );
}

/** The token. The first attempt to close the dialog asks for confirmation. */
function Token({ made, onClose }: { made: NewKey; onClose: () => void }) {
  const [asked, setAsked] = useState(false);
  return (
    <Dialog
      open
      stay
      onClose={() => (asked ? onClose() : setAsked(true))}
      title={`Created the key ${made.key.name}`}
      footer={<Button variant="primary" onClick={onClose}>{asked ? "Close" : "I have copied it"}</Button>}
    >
      <div className="stack">
        <p className="Keys-warning" role={asked ? "alert" : undefined}>
          <TriangleAlert aria-hidden="true" />
          <span>{asked ? "The token cannot be shown again. Close the dialog if you have copied it." : "The token is shown only once. Copy it now and store it as a secret."}</span>
        </p>
        <Code text={made.token} label="Token" wrap />
        <p className="soft">Send it with each request as <code>Authorization: Bearer TOKEN</code>. In lists the key appears as <code>{made.key.prefix}</code>.</p>
      </div>
    </Dialog>
  );
}
