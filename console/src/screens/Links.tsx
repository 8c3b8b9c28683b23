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

/** The signed-in caller's external accounts. */
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
      description="Your external accounts, such as a wallet address. Tools that need one receive it only in calls you make."
      actions={<Button variant="primary" icon={<Plus />} onClick={() => setAdding(true)}>Link an account</Button>}
    >
      <Card flush>
        <Table label="Links" columns={columns} rows={rows} rowKey={(link) => link.kind} error={error} onRetry={() => void refetch()} sort={{ id: "kind" }} empty={<NoLinks />} />
      </Card>
      {adding && <AddLink onClose={() => setAdding(false)} />}
      <Remove doomed={doomed} onClose={() => setDoomed(undefined)} />
    </Page>
  );
}

function columnsOf(remove: (link: Link) => void): Column<Link>[] {
  return [
    { id: "kind", header: "Kind", min: 120, grow: 1, value: ({ kind }) => kind, cell: ({ kind }) => <span className="cut strong" title={kind}>{kind}</span> },
    { id: "address", header: "Address", min: 160, grow: 3, value: ({ address }) => address, cell: ({ address }) => <span className="cut mono" title={address}>{visible(address)}</span> },
    { id: "remove", header: "", min: 104, align: "right", cell: (link) => <Button size="s" variant="danger" onClick={() => remove(link)} aria-label={`Remove ${link.kind}`}>Remove</Button> },
  ];
}

function NoLinks() {
  return <EmptyState icon={<Link2 />} title="No linked accounts">The Metadata tab of a tool lists the links it needs. Most tools need none.</EmptyState>;
}

function NoStore() {
  return <EmptyState icon={<Link2 />} title="No store configured">Links require a store. Add one to the configuration.</EmptyState>;
}

/** Links an account, replacing an existing one of the same kind. */
function AddLink({ onClose }: { onClose: () => void }) {
  const client = useQueryClient();
  const [link, setDraft] = useState<Link>({ kind: "", address: "" });
  const add = useMutation({
    mutationFn: () => setLink({ kind: link.kind.trim(), address: link.address.trim() }),
    onSuccess: async ({ kind }) => {
      await client.invalidateQueries({ queryKey: ["links"] });
      toast.good(`Linked ${kind}.`);
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
      <Button variant="primary" type="submit" form="link-form" busy={add.isPending} disabled={!link.kind.trim() || !link.address.trim()}>Link</Button>
    </>
  );
  return (
    <Dialog open onClose={onClose} title="Link an account" footer={footer}>
      <form id="link-form" className="stack" onSubmit={submit}>
        <TextField label="Kind" required value={link.kind} onChange={(kind) => setDraft({ ...link, kind })} maxLength={32} autoComplete="off" spellCheck={false} placeholder="wallet" hint="The name that tools use for it. Replaces an existing link of the same kind." />
        <TextField label="Address" required mono value={link.address} onChange={(address) => setDraft({ ...link, address })} maxLength={256} autoComplete="off" spellCheck={false} placeholder="0x…" hint="Tools can read it. Never enter a private key." />
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
    toast.good(`Removed the ${doomed.kind} link.`);
  };
  return (
    <Confirm open onClose={onClose} title={`Remove the ${doomed.kind} link?`} action="Remove link" danger onConfirm={remove}>
      <p>Tools will no longer receive <code className="wrap-anywhere">{visible(doomed.address)}</code>. Your calls to tools that need it will fail.</p>
    </Confirm>
  );
}
