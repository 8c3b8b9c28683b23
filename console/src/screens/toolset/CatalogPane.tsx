import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { SearchX } from "lucide-react";
import { useCallback, useMemo, useState } from "react";
import { queries } from "../../api/queries";
import type { Facet, Facets, ToolFilter } from "../../api/types";
import { TextField } from "../../components/Field";
import { Select } from "../../components/Select";
import { EmptyState, ErrorState, Skeleton } from "../../components/States";
import { Tabs } from "../../components/Tabs";
import { Checkbox } from "../../components/Toggle";
import { count, plural } from "../../format";
import { oneOf } from "../../search";
import { modes } from "../catalog/filter";
import { catalogPages } from "./catalog";
import { PickList } from "./PickList";
import { type Selection, serverState } from "./selection";
import { ToolList } from "./ToolList";
import { useDelayed } from "../../useDelayed";

export type Picking = {
  selection: Selection;
  pickTool: (server: string | undefined, name: string, on: boolean) => void;
  pickServer: (id: string, on: boolean) => void;
  pickPack: (name: string, on: boolean) => void;
  /** The server whose tools are being loaded, so that one of them can be deselected. */
  busy: string | undefined;
};

/** The catalog to select from: single tools, whole servers or packs. */
export function CatalogPane(picking: Picking) {
  const packs = useQuery(queries.packs()).data?.packs ?? [];
  const tabs = [
    { id: "tools", label: "Tools", content: <Tools {...picking} /> },
    { id: "servers", label: "Whole servers", content: <Servers {...picking} /> },
    ...(packs.length > 0 ? [{ id: "packs", label: "Packs", content: <Packs names={packs.map(({ name }) => name)} {...picking} /> }] : []),
  ];
  return (
    <section className="Toolset-pane" aria-label="Catalog">
      <Tabs label="Catalog" tabs={tabs} />
    </section>
  );
}

function Tools(picking: Picking) {
  const [filter, setFilter] = useState<ToolFilter>({});
  const tools = useInfiniteQuery(catalogPages(useDelayed(filter, 150)));
  const first = tools.data?.pages[0];
  const list = useMemo(() => tools.data?.pages.flatMap((page) => page.tools) ?? [], [tools.data]);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = tools;
  const loadMore = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  const source = filter.source;
  return (
    <div className="Toolset-pick">
      <TextField label="Find a tool" labelHidden type="search" placeholder="Find a tool" value={filter.q ?? ""} onChange={(q) => setFilter({ ...filter, q })} />
      <FacetRow facets={first?.facets} filter={filter} onChange={setFilter} />
      <div className="spread small soft Toolset-found">
        <span aria-live="polite">{first && plural(first.total, "tool")}</span>
        {source && source !== "-" && (
          <Checkbox label={<>All of <strong>{source}</strong>, including future tools</>} checked={serverState(picking.selection, source) === "whole"} indeterminate={serverState(picking.selection, source) === "some"} onChange={(on) => picking.pickServer(source, on)} />
        )}
      </div>
      {tools.error && !tools.data ? (
        <ErrorState error={tools.error} onRetry={() => void tools.refetch()} />
      ) : !tools.data ? (
        <div className="Toolset-loading"><Skeleton lines={8} /></div>
      ) : first?.total === 0 ? (
        <EmptyState icon={<SearchX />} title="No matching tools">Remove a filter or change the search.</EmptyState>
      ) : (
        <ToolList tools={list} loadMore={loadMore} {...picking} />
      )}
    </div>
  );
}

type FacetRowProps = { facets: Facets | undefined; filter: ToolFilter; onChange: (filter: ToolFilter) => void };

function FacetRow({ facets, filter, onChange }: FacetRowProps) {
  return (
    <div className="Toolset-facets">
      <Select label="Source" labelHidden value={filter.source ?? ""} items={items("Any source", facets?.source, filter.source, (id) => (id === "-" ? "local" : id))} onChange={(source) => onChange({ ...filter, source })} />
      <Select label="Category" labelHidden value={filter.category ?? ""} items={items("Any category", facets?.category?.filter((each) => each.value !== ""), filter.category)} onChange={(category) => onChange({ ...filter, category })} />
      <Select label="Mode" labelHidden value={filter.mode ?? ""} items={items("Read and write", facets?.mode, filter.mode)} onChange={(mode) => onChange({ ...filter, mode: oneOf(modes, mode) })} />
    </div>
  );
}

function items(any: string, facet: Facet[] | undefined, chosen: string | undefined, name = (value: string) => value) {
  const list = (facet ?? []).map(({ value, count: n }) => ({ value, label: `${name(value)} (${count(n)})` }));
  if (chosen && !list.some((item) => item.value === chosen)) list.unshift({ value: chosen, label: `${name(chosen)} (0)` });
  return [{ value: "", label: any }, ...list];
}

function Packs({ names, selection, pickPack }: Picking & { names: string[] }) {
  return (
    <div className="Toolset-pick">
      <p className="small soft">Selecting a pack includes all its tools and resources.</p>
      {names.map((name) => (
        <div key={name} className="Toolset-line">
          <Checkbox label={<span className="cut">{name}</span>} checked={selection.packs.includes(name)} onChange={(on) => pickPack(name, on)} />
        </div>
      ))}
    </div>
  );
}

function Servers({ selection, pickServer }: Picking) {
  const [text, setText] = useState("");
  const { data, error, refetch } = useQuery(queries.servers());
  if (!data) return error ? <ErrorState error={error} onRetry={() => void refetch()} /> : <Skeleton lines={8} />;
  const found = data.servers.filter((server) => server.id.toLowerCase().includes(text.toLowerCase()));
  return (
    <div className="Toolset-pick">
      <TextField label="Find a server" labelHidden type="search" placeholder="Find a server by ID" value={text} onChange={setText} />
      <p className="small soft">Selecting a server adds all its tools, including any that are added and approved later.</p>
      {found.length === 0 ? (
        <EmptyState icon={<SearchX />} title={data.servers.length === 0 ? "No servers" : "No matching servers"} />
      ) : (
        <PickList label="Servers" length={found.length} height={40} keyOf={(i) => found[i]?.id ?? i}>
          {(i) => {
            const server = found[i];
            if (!server) return null;
            const state = serverState(selection, server.id);
            return (
              <div className="Toolset-line">
                <Checkbox label={<span className="cut">{server.id}</span>} checked={state === "whole"} indeterminate={state === "some"} onChange={(on) => pickServer(server.id, on)} />
                <span className="Toolset-number">{state === "some" && "some of "}{plural(server.tools, "tool")}{server.state !== "up" && `, ${server.state}`}</span>
              </div>
            );
          }}
        </PickList>
      )}
    </div>
  );
}
