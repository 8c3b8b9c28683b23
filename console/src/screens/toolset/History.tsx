import { useQuery, useQueryClient } from "@tanstack/react-query";
import { History as HistoryIcon } from "lucide-react";
import { useMemo, useState } from "react";
import { restoreEdit } from "../../api/actions";
import { queries } from "../../api/queries";
import type { Edit, EditDetail } from "../../api/types";
import { Badge } from "../../components/Badge";
import { Button } from "../../components/Button";
import { Card } from "../../components/Card";
import { Dialog } from "../../components/Dialog";
import { JsonDiff } from "../../components/Diff";
import { JsonView } from "../../components/JsonView";
import { EmptyState, ErrorNote, ErrorState, Skeleton } from "../../components/States";
import { type Column, Table } from "../../components/Table";
import { Time } from "../../components/Time";
import { toast } from "../../components/Toast";
import { useMe } from "../../session";

/** All versions of the edits, with actions to view and restore them. */
export function History() {
  const { data, error, refetch } = useQuery(queries.edits());
  const [shown, setShown] = useState<Edit>();
  const columns = useMemo(() => columnsOf(setShown), []);
  const current = data?.edits.find((edit) => edit.current);
  return (
    <Card flush title="Versions" description="Every edit to a toolset or gate creates a version. The last 100 versions are listed.">
      <Table
        label="Versions"
        columns={columns}
        rows={data?.edits}
        rowKey={(edit) => String(edit.version)}
        error={error}
        onRetry={() => void refetch()}
        empty={<EmptyState icon={<HistoryIcon />} title="No edits yet">Toolsets, gates and prices are as defined in the configuration file. Edits appear here with their authors.</EmptyState>}
      />
      {shown && <VersionDialog edit={shown} current={current} onClose={() => setShown(undefined)} />}
    </Card>
  );
}

function columnsOf(show: (edit: Edit) => void): Column<Edit>[] {
  return [
    { id: "version", header: "Version", min: 124, cell: (edit) => <span className="row">{edit.version}{edit.current && <Badge tone="accent">current</Badge>}</span> },
    { id: "note", header: "Change", min: 160, grow: 2, cell: (edit) => <span className="cut" title={edit.note}>{edit.note || <span className="faint">no note</span>}</span> },
    { id: "by", header: "Who", min: 110, grow: 1, cell: (edit) => <span className="cut" title={edit.by}>{edit.by}</span> },
    { id: "at", header: "When", min: 92, drop: 1, cell: (edit) => <Time at={edit.at} /> },
    { id: "show", header: "", min: 84, align: "right", cell: (edit) => <Button size="s" variant="quiet" onClick={() => show(edit)}>View<span className="unseen">: version {edit.version}</span></Button> },
  ];
}

type VersionDialogProps = { edit: Edit; current: Edit | undefined; onClose: () => void };

function VersionDialog({ edit, current, onClose }: VersionDialogProps) {
  const then = useQuery(queries.edit(edit.version));
  const now = useQuery({ ...queries.edit(current?.version ?? 0), enabled: current !== undefined && !edit.current });
  const me = useMe();
  const { restore, busy, error } = useRestore(edit, current, onClose);
  const canRestore = me?.role === "operator" && me.edits.length > 0 && !edit.current && current !== undefined;
  const failed = then.error ?? now.error;
  return (
    <Dialog
      open
      onClose={onClose}
      size="l"
      title={`Version ${edit.version}${edit.current ? " (current)" : ""}`}
      description={<>{edit.note || "No note"}, by {edit.by}, <Time at={edit.at} /></>}
      footer={
        <>
          {canRestore && <p className="grow small soft" style={{ alignSelf: "center" }}>Restoring creates a new version with the toolsets and gates from version {edit.version}, effective immediately.</p>}
          <Button onClick={onClose}>{canRestore ? "Cancel" : "Close"}</Button>
          {canRestore && <Button variant="primary" busy={busy} disabled={!then.data} onClick={restore}>Restore version {edit.version}</Button>}
        </>
      }
    >
      <div className="stack">
        <ErrorNote error={error} />
        {failed ? <ErrorState error={failed} /> : then.data ? <VersionText then={then.data} now={now.data} current={edit.current ?? false} /> : <Skeleton lines={6} />}
      </div>
    </Dialog>
  );
}

function VersionText({ then, now, current }: { then: EditDetail; now: EditDetail | undefined; current: boolean }) {
  const content = contentOf(then);
  if (current || !now) return <JsonView value={content} label={`Version ${then.version}`} open={4} />;
  return <JsonDiff label={`Version ${now.version} and version ${then.version}`} beforeTitle={`Current version ${now.version}`} afterTitle={`Version ${then.version}`} before={contentOf(now)} after={content} />;
}

function contentOf({ toolsets, gates, prices }: EditDetail) {
  return { toolsets, gates, prices };
}

function useRestore(edit: Edit, current: Edit | undefined, onDone: () => void) {
  const client = useQueryClient();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const restore = async () => {
    if (!current) return;
    setBusy(true);
    setError(undefined);
    try {
      await restoreEdit(edit.version, current.version);
      toast.good(`Restored version ${edit.version}.`);
      onDone();
    } catch (cause) {
      setError(cause);
    } finally {
      setBusy(false);
      await Promise.all(["toolsets", "gates", "edits", "tools"].map((key) => client.invalidateQueries({ queryKey: [key] })));
    }
  };
  return { restore, busy, error };
}
