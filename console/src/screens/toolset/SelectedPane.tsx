import { useQuery } from "@tanstack/react-query";
import { ChevronRight, Layers, X } from "lucide-react";
import { type ReactNode, useState } from "react";
import { queries } from "../../api/queries";
import type { ToolsetServer } from "../../api/types";
import { Button, IconButton } from "../../components/Button";
import { Card } from "../../components/Card";
import { EmptyState } from "../../components/States";
import { count, plural } from "../../format";
import { visible } from "../../format/visible";
import { isWhole, type Selection } from "./selection";

type SelectedPaneProps = {
  selection: Selection;
  mayEdit: boolean;
  onTool: (server: string | undefined, name: string, on: boolean) => void;
  onServer: (id: string, on: boolean) => void;
  onPack: (name: string, on: boolean) => void;
  onLocal: (tools: string[]) => void;
  /** Replaces a whole server with the list of its tools. */
  onExpand: (id: string) => void;
  busy: string | undefined;
};

/** The selection, grouped by server. */
export function SelectedPane({ selection, mayEdit, onTool, onServer, onPack, onLocal, onExpand, busy }: SelectedPaneProps) {
  const servers = useQuery(queries.servers());
  const tools = new Map(servers.data?.servers.map((server) => [server.id, server.tools]));
  const groups = selection.servers.length + selection.packs.length + (selection.tools.length > 0 ? 1 : 0);
  return (
    <Card title="Selected" flush={groups > 0}>
      {groups === 0 && <EmptyState icon={<Layers />} title="Nothing selected">{mayEdit ? "Gates that use this toolset would offer no tools. Select some from the catalog." : "Gates that use this toolset offer no tools."}</EmptyState>}
      {selection.tools.length > 0 && (
        <Group name="Local tools" about={count(selection.tools.length)} names={selection.tools} actions={mayEdit && <IconButton size="s" label="Remove all local tools" icon={<X />} onClick={() => onLocal([])} />} onRemove={mayEdit ? (name) => onTool(undefined, name, false) : undefined} />
      )}
      {selection.servers.map((pick, i) => (
        <Group
          key={`${pick.id} ${i}`}
          name={pick.id}
          about={aboutOf(pick, tools.get(pick.id))}
          names={pick.tools ?? []}
          actions={mayEdit && <PickActions pick={pick} busy={busy === pick.id} onServer={onServer} onExpand={onExpand} />}
          onRemove={mayEdit ? (name) => onTool(pick.id, name, false) : undefined}
        />
      ))}
      {selection.packs.map((name) => (
        <Group key={`pack ${name}`} name={name} about="pack; all tools and resources" names={[]} actions={mayEdit && <IconButton size="s" label={`Remove pack ${name}`} icon={<X />} onClick={() => onPack(name, false)} />} onRemove={undefined} />
      ))}
    </Card>
  );
}

function aboutOf(pick: ToolsetServer, tools: number | undefined): string {
  const amount = isWhole(pick) ? `all tools${tools === undefined ? "" : ` (currently ${count(tools)})`}` : `${count(pick.tools?.length)}${tools === undefined ? "" : ` of ${plural(tools, "tool")}`}`;
  return pick.resources && pick.resources.length > 0 ? `${amount}; ${plural(pick.resources.length, "resource pattern")}` : amount;
}

type PickActionsProps = { pick: ToolsetServer; busy: boolean; onServer: (id: string, on: boolean) => void; onExpand: (id: string) => void };

function PickActions({ pick, busy, onServer, onExpand }: PickActionsProps) {
  return (
    <>
      {isWhole(pick) ? (
        <Button size="s" variant="quiet" busy={busy} onClick={() => onExpand(pick.id)}>Choose tools</Button>
      ) : (
        <Button size="s" variant="quiet" onClick={() => onServer(pick.id, true)}>Select all</Button>
      )}
      <IconButton size="s" label={`Remove ${pick.id}`} icon={<X />} onClick={() => onServer(pick.id, false)} />
    </>
  );
}

const page = 60; // names shown at first, and added per click
const openBelow = 12; // groups with fewer names are initially open

type GroupProps = { name: string; about: string; names: string[]; actions: ReactNode; onRemove: ((name: string) => void) | undefined };

function Group({ name, about, names, actions, onRemove }: GroupProps) {
  const [open, setOpen] = useState<boolean>();
  const [limit, setLimit] = useState(page);
  const shown = open ?? names.length <= openBelow;
  const title = <><span className="cut strong">{name}</span><span className="faint small cut">{about}</span></>;
  return (
    <section className="Toolset-group" aria-label={name}>
      <div className="Toolset-group-head">
        {names.length > 0 ? (
          <button type="button" className="Toolset-fold" aria-expanded={shown} onClick={() => setOpen(!shown)}><ChevronRight aria-hidden="true" />{title}</button>
        ) : (
          <div className="Toolset-fold Toolset-unfolded">{title}</div>
        )}
        {actions}
      </div>
      {shown && names.length > 0 && (
        <ul className="Toolset-names">
          {names.slice(0, limit).map((each) => (
            <li key={each} className="Toolset-name">
              <code className="cut" title={visible(each)}>{visible(each)}</code>
              {onRemove && <button type="button" aria-label={`Remove ${each}`} onClick={() => onRemove(each)}><X aria-hidden="true" /></button>}
            </li>
          ))}
          {names.length > limit && <li><Button size="s" variant="quiet" onClick={() => setLimit(limit + 10 * page)}>{count(names.length - limit)} more</Button></li>}
        </ul>
      )}
    </section>
  );
}
