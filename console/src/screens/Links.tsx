import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link2, Plus } from "lucide-react";
import { type FormEvent, useMemo, useState } from "react";
import { removeLink, setLink } from "../api/actions";
import { ApiError } from "../api/client";
import { queries } from "../api/queries";
import type { Link } from "../api/types";
import { Button } from "../components/Button";
import { Card } from "../components/Card";
import { Confirm, Dialog } from "../components/Dialog";
import { TextField } from "../components/Field";
import { Page } from "../components/Page";
import { EmptyState, ErrorNote } from "../components/States";
import { type Column, Table } from "../components/Table";
import { toast } from "../components/Toast";
import { visible } from "../format/visible";

/** The accounts elsewhere that who is signed in has linked. */
export default function Links() {
  const { data, error, refetch } = useQuery(queries.links());
  const [adding, setAdding] = useState(false);
  const [doomed, setDoomed] = useState<Link>();
  const rows = useMemo(() => data && Object.entries(data.links).map(([kind, address]): Link => ({ kind, address })), [data]);
  const columns = useMemo(() => columnsOf(setDoomed), []);
  if (error instanceof ApiError && error.status === 404) return <Page title="Links"><Card><NoStore /></Card></Page>;
  return (
    <Page
      title="Links"
      description="Your accounts elsewhere, such as a wallet. Tools that ask for one are told it with your calls, and with nobody else's."
      actions={<Button variant="primary" icon={<Plus />} onClick={() => setAdding(true)}>Link an account</Button>}
    >
      <Card flush>
        <Table label="Links" columns={columns} rows={rows} rowKey={(link) => link.kind} error={error} onRetry={() => void refetch()} sort={{ id: "kind" }} empty={<Nothing />} />
      </Card>
      {adding && <AddLink onClose={() => setAdding(false)} />}
      <Remove doomed={doomed} onClose={() => setDoomed(undefined)} />
    </Page>
  );
}

function columnsOf(remove: (link: Link) => void): Column<Link>[] {
  return [
    { id: "kind", header: "Kind", width: "24%", value: ({ kind }) => kind, cell: ({ kind }) => <span className="cut strong" title={kind}>{kind}</span> },
    { id: "address", header: "Address", value: ({ address }) => address, cell: ({ address }) => <span className="cut mono" title={address}>{visible(address)}</span> },
    { id: "remove", header: "", width: "104px", align: "right", cell: (link) => <Button size="s" variant="danger" onClick={() => remove(link)} aria-label={`Remove ${link.kind}`}>Remove</Button> },
  ];
}

function Nothing() {
  return <EmptyState icon={<Link2 />} title="You have linked nothing">What a tool declares says what it asks for. Tools that ask for nothing need no link.</EmptyState>;
}

function NoStore() {
  return <EmptyState icon={<Link2 />} title="Nothing can be linked here">Links are kept in a store, and this yard has none.</EmptyState>;
}

/** Links an account, instead of the one that was linked as the same kind. */
function AddLink({ onClose }: { onClose: () => void }) {
  const client = useQueryClient();
  const [link, setDraft] = useState<Link>({ kind: "", address: "" });
  const add = useMutation({
    mutationFn: () => setLink({ kind: link.kind.trim(), address: link.address.trim() }),
    onSuccess: async ({ kind }) => {
      await client.invalidateQueries({ queryKey: ["links"] });
      toast.good(`Your ${kind} is linked.`);
      onClose();
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    add.mutate();
  };
  const footer = (
    <>
      <Button onClick={onClose}>Cancel</Button>
      <Button variant="primary" type="submit" form="link-form" busy={add.isPending} disabled={!link.kind.trim() || !link.address.trim()}>Link it</Button>
    </>
  );
  return (
    <Dialog open onClose={onClose} title="Link an account" footer={footer}>
      <form id="link-form" className="stack" onSubmit={submit}>
        <TextField label="Kind" required value={link.kind} onChange={(kind) => setDraft({ ...link, kind })} maxLength={32} autoComplete="off" spellCheck={false} placeholder="wallet" hint="What tools ask for it by. One that is linked already is replaced." />
        <TextField label="Address" required mono value={link.address} onChange={(address) => setDraft({ ...link, address })} maxLength={256} autoComplete="off" spellCheck={false} placeholder="0x…" hint="It is shown to tools, and no secret: never paste a private key here." />
        <ErrorNote error={add.error} />
      </form>
    </Dialog>
  );
}

function Remove({ doomed, onClose }: { doomed: Link | undefined; onClose: () => void }) {
  const client = useQueryClient();
  if (!doomed) return null;
  const remove = async () => {
    await removeLink(doomed.kind);
    await client.invalidateQueries({ queryKey: ["links"] });
    toast.good(`Your ${doomed.kind} is linked no more.`);
  };
  return (
    <Confirm open onClose={onClose} title={`Remove the link ${doomed.kind}?`} action="Remove it" danger onConfirm={remove}>
      <p>Tools that ask for it are not told <code className="wrap-anywhere">{visible(doomed.address)}</code> any more, and may refuse your calls.</p>
    </Confirm>
  );
}
