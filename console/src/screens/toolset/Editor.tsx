import { useMutation, useQueryClient, type QueryClient } from "@tanstack/react-query";
import { Link, useBlocker, useNavigate } from "@tanstack/react-router";
import { Undo2 } from "lucide-react";
import { useState } from "react";
import { putToolset, removeToolset } from "../../api/actions";
import { ApiError } from "../../api/client";
import { queries } from "../../api/queries";
import type { ExportFormat, Toolset } from "../../api/types";
import { Badge } from "../../components/Badge";
import { Button } from "../../components/Button";
import { Confirm } from "../../components/Dialog";
import { Page } from "../../components/Page";
import { ErrorNote } from "../../components/States";
import { toast } from "../../components/Toast";
import { namesOf } from "./catalog";
import { CatalogPane } from "./CatalogPane";
import { Conflict } from "./Conflict";
import { ReadOnlyNote, useCanEdit } from "./Editable";
import { Effect } from "./Effect";
import { ExportDialog } from "./ExportDialog";
import { ExportMenu } from "./ExportMenu";
import { SelectedPane } from "./SelectedPane";
import { bodyOf, same, type Selection, selectionOf, toolState, withPack, withServer, withTool, withTools } from "./selection";
import { type Draft, type Snapshot, useDraft } from "./useDraft";

type EditorProps = {
  name: string;
  /** The current toolset; undefined for a new one. */
  set: Toolset | undefined;
  latest: Snapshot;
};

/** The contents of a toolset, editable by operators. */
export function Editor({ name, set, latest }: EditorProps) {
  const mayEdit = useCanEdit("toolsets");
  const state = useDraft(latest);
  const [exporting, setExporting] = useState<ExportFormat>();
  const save = useSave(name, state, set === undefined);
  return (
    <Page
      title={name}
      above={<Link to="/toolsets">Toolsets</Link>}
      beside={<Badges set={set} dirty={state.dirty} />}
      description={set && <UsedBy gates={set.gates} />}
      actions={
        <>
          {set && <ExportMenu onChoose={setExporting} />}
          {mayEdit && set?.from === "api" && <RevertToFile name={name} version={state.base.version} />}
          {mayEdit && <Button icon={<Undo2 aria-hidden="true" />} disabled={!state.dirty} onClick={state.discard}>Discard</Button>}
          {mayEdit && <Button variant="primary" busy={save.isPending} disabled={state.conflict || (!state.dirty && set !== undefined)} onClick={() => save.mutate()}>{set ? "Save" : "Create"}</Button>}
        </>
      }
    >
      <ReadOnlyNote part="toolsets" />
      {state.conflict ? <Conflict was={state.base.selection} theirs={latest.selection} onMine={state.keepMine} onTheirs={state.takeTheirs} /> : <ErrorNote error={save.error} />}
      <Panes name={name} state={state} mayEdit={mayEdit} />
      {exporting && set && <ExportDialog of={{ toolset: name, gates: set.gates }} format={exporting} unsaved={state.dirty} onFormat={setExporting} onClose={() => setExporting(undefined)} />}
      <UnsavedGuard dirty={state.dirty} />
    </Page>
  );
}

function Badges({ set, dirty }: { set: Toolset | undefined; dirty: boolean }) {
  return (
    <>
      {!set ? <Badge tone="info">not created</Badge> : set.from === "api" ? <Badge tone="info" title="The edit overrides the file.">edited</Badge> : <Badge>from file</Badge>}
      {dirty && <Badge tone="warn">unsaved</Badge>}
    </>
  );
}

function UsedBy({ gates }: { gates: string[] }) {
  if (gates.length === 0) return <>Not used by any gate.</>;
  return <>Used by {gates.map((gate, i) => <span key={gate}>{i > 0 && ", "}<Link to="/gates" search={{ gate }}>{gate}</Link></span>)}.</>;
}

function Panes({ name, state, mayEdit }: { name: string; state: Draft; mayEdit: boolean }) {
  const { draft, setDraft, dirty } = state;
  const expansion = useExpandServer(setDraft);
  const pickServer = (id: string, on: boolean) => setDraft(withServer(draft, id, on));
  const pickPack = (id: string, on: boolean) => setDraft(withPack(draft, id, on));
  const pickTool = (server: string | undefined, tool: string, on: boolean) => {
    if (server !== undefined && !on && toolState(draft, server, tool) === "whole") expansion.name(server, tool);
    else setDraft(withTool(draft, server, tool, on));
  };
  const picked = <SelectedPane selection={draft} mayEdit={mayEdit} onTool={pickTool} onServer={pickServer} onPack={pickPack} onLocal={(tools) => setDraft({ ...draft, tools })} onExpand={(id) => expansion.name(id)} busy={expansion.busy} />;
  if (!mayEdit) return <div className="Toolset-read">{picked}<Effect name={name} selection={draft} dirty={false} /></div>;
  return (
    <div className="Toolset-panes">
      <CatalogPane selection={draft} pickTool={pickTool} pickServer={pickServer} pickPack={pickPack} busy={expansion.busy} />
      <div className="stack">
        <Effect name={name} selection={draft} dirty={dirty} />
        {picked}
      </div>
    </div>
  );
}

/** Replaces a whole server with the list of its tools, optionally omitting one of them. */
function useExpandServer(setDraft: Draft["setDraft"]) {
  const client = useQueryClient();
  const [busy, setBusy] = useState<string>();
  const name = async (server: string, except?: string) => {
    setBusy(server);
    try {
      const names = await namesOf(client, server);
      if (names.length === 0) toast.bad(`${server} has no tools.`);
      else setDraft((draft) => withTools(draft, server, names.filter((each) => each !== except)));
    } catch (error) {
      toast.bad(error);
    } finally {
      setBusy(undefined);
    }
  };
  return { busy, name: (server: string, except?: string) => void name(server, except) };
}

function useSave(name: string, { draft, base }: Draft, fresh: boolean) {
  const client = useQueryClient();
  const navigate = useNavigate();
  return useMutation({
    mutationFn: () => put(client, name, draft, base),
    onSuccess: async () => {
      await refresh(client);
      toast.good(fresh ? `Created ${name}.` : `Saved ${name}.`);
      if (fresh) void navigate({ to: "/toolsets/$name", params: { name }, replace: true });
    },
    onError: () => refresh(client), // shows concurrent changes
  });
}

/** Saves a draft. The version covers all edits, so a changed version is a conflict only if this toolset changed. */
async function put(client: QueryClient, name: string, draft: Selection, base: Snapshot): Promise<Toolset> {
  try {
    return await putToolset(name, { ...bodyOf(draft), version: base.version });
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 409) throw error;
    const { toolsets, version } = await client.fetchQuery({ ...queries.toolsets(), staleTime: 0 });
    const theirs = selectionOf(toolsets.find((set) => set.name === name) ?? {});
    if (!same(theirs, base.selection)) throw error;
    return putToolset(name, { ...bodyOf(draft), version });
  }
}

async function refresh(client: QueryClient) {
  await Promise.all(["toolsets", "gates", "edits", "tools", "overview", "problems"].map((key) => client.invalidateQueries({ queryKey: [key] })));
}

function RevertToFile({ name, version }: { name: string; version: number }) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const [asking, setAsking] = useState(false);
  const remove = async () => {
    try {
      await removeToolset(name, version);
      const { toolsets } = await client.fetchQuery({ ...queries.toolsets(), staleTime: 0 });
      const there = toolsets.some((set) => set.name === name);
      toast.good(there ? `Reverted ${name} to the version in the file.` : `Removed ${name}: the file does not define it.`);
      if (!there) await navigate({ to: "/toolsets" });
    } finally {
      await refresh(client);
    }
  };
  return (
    <>
      <Button variant="danger" onClick={() => setAsking(true)}>Revert to file</Button>
      <Confirm open={asking} onClose={() => setAsking(false)} title={`Revert ${name} to the version in the file?`} action="Revert" danger onConfirm={remove}>
        <p>The definition in the configuration file takes effect immediately at all gates that use it. If the file does not define this toolset, it is removed.</p>
        <p className="soft">The edit stays in the history and can be restored.</p>
      </Confirm>
    </>
  );
}

/** Asks for confirmation before unsaved changes are lost. */
function UnsavedGuard({ dirty }: { dirty: boolean }) {
  const blocker = useBlocker({
    shouldBlockFn: ({ current, next }) => dirty && current.pathname !== next.pathname,
    enableBeforeUnload: () => dirty,
    withResolver: true,
  });
  return (
    <Confirm open={blocker.status === "blocked"} onClose={() => blocker.reset?.()} title="Leave without saving?" action="Leave" danger onConfirm={async () => blocker.proceed?.()}>
      <p>Your changes to this toolset are not saved.</p>
    </Confirm>
  );
}
