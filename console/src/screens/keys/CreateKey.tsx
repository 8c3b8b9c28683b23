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
  const create = useMutation({
    gcTime: 0,
    mutationFn: () => createKey({ name: draft.name.trim(), caller: draft.caller, account: draft.account || undefined, scopes: scopesOf(draft), ttl: draft.ttl || undefined }),
    onSuccess: () => client.invalidateQueries({ queryKey: ["keys"] }),
  });
  if (create.data) return <Token created={create.data} onClose={onClose} />;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (isComplete(draft)) create.mutate();
  };
  return (
    <Dialog open onClose={onClose} title="Create key">
      <form className="stack" onSubmit={submit}>
        <KeyForm draft={draft} onChange={setDraft} />
        <ErrorNote error={create.error} />
        <div className="Dialog-buttons">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="primary" busy={create.isPending} disabled={!isComplete(draft)}>Create key</Button>
        </div>
      </form>
    </Dialog>
  );
}

/** The token. The first attempt to close the dialog asks for confirmation. */
function Token({ created, onClose }: { created: NewKey; onClose: () => void }) {
  const [confirming, setConfirming] = useState(false);
  return (
    <Dialog
      open
      stay
      onClose={() => (confirming ? onClose() : setConfirming(true))}
      title={`Created key ${created.key.name}`}
      footer={<Button variant="primary" onClick={onClose}>{confirming ? "Close" : "I have copied it"}</Button>}
    >
      <div className="stack">
        <p className="Keys-warning" role={confirming ? "alert" : undefined}>
          <TriangleAlert aria-hidden="true" />
          <span>{confirming ? "The token cannot be shown again. Close the dialog if you have copied it." : "The token is shown only once. Copy it now and store it as a secret."}</span>
        </p>
        <Code text={created.token} label="Token" wrap />
        <p className="soft">Send it with each request as <code>Authorization: Bearer TOKEN</code>. In lists the key appears as <code>{created.key.prefix}</code>.</p>
      </div>
    </Dialog>
  );
}
