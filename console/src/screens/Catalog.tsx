import { useNavigate, useSearch } from "@tanstack/react-router";
import { Package, SearchX, SlidersHorizontal, X } from "lucide-react";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { Button } from "../components/Button";
import { Code } from "../components/Code";
import { Page } from "../components/Page";
import { EmptyState, ErrorState, Skeleton } from "../components/States";
import { plural } from "../format";
import { visible } from "../format/visible";
import { type CatalogSearch, filterNames, filterOf, filterLabels, isFiltered, valueLabel } from "./catalog/filter";
import { Facets } from "./catalog/Facets";
import { wordsOf } from "./catalog/highlight";
import { type ToolPages, useToolPages } from "./catalog/pages";
import { Rows, type RowsHandle } from "./catalog/Rows";
import { SearchBox } from "./catalog/SearchBox";
import "../components/Field.css";
import "./Catalog.css";

/** All tools, with search as you type. */
export default function Catalog() {
  const search = useSearch({ from: "/catalog" });
  const navigate = useNavigate({ from: "/catalog" });
  const [typed, setTyped] = useTyped(search.q ?? "");
  const filter = useMemo(() => filterOf(search, typed), [search, typed]);
  const pages = useToolPages(filter);
  const input = useRef<HTMLInputElement>(null);
  const rows = useRef<RowsHandle>(null);
  const [open, setOpen] = useState(false);
  const narrow = useCallback((more: CatalogSearch) => void navigate({ search: (old) => ({ ...old, ...more }) }), [navigate]);
  const clear = () => {
    setTyped("");
    void navigate({ search: {} });
  };
  useTopAfter(filter);
  const enter = useEnter(pages, rows);
  const chosen = isFiltered(search);
  if (pages.first?.total === 0 && !pages.stale && !chosen && typed.trim() === "") return <Page title="Catalog"><NoTools /></Page>;
  return (
    <Page title="Catalog" description="All tools in this yard, from every source.">
      <div className="Catalog">
        <div className="Catalog-top">
          <SearchBox value={typed} onChange={setTyped} input={input} onDown={() => rows.current?.focus(0)} onEnter={enter} />
          <div className="Catalog-filters">
            <Button icon={<SlidersHorizontal />} aria-expanded={open} onClick={() => setOpen(!open)}>Filters</Button>
          </div>
        </div>
        <aside className={open ? "Catalog-side Catalog-open" : "Catalog-side"} aria-label="Filters">
          <Facets search={search} counts={pages.first?.facets} narrow={narrow} />
        </aside>
        <div className="Catalog-list">
          <Chosen search={search} pages={pages} narrow={narrow} onClear={clear} />
          <Found pages={pages} typed={typed} chosen={chosen} onClear={clear} rows={rows} onLeave={() => input.current?.focus()} />
        </div>
      </div>
    </Page>
  );
}

/**
 * The search text. The URL follows with a delay, because browsers limit how often it may change.
 * A change to the URL itself, such as Back, updates the text.
 */
function useTyped(inAddress: string): [string, (text: string) => void] {
  const navigate = useNavigate({ from: "/catalog" });
  const [typed, setTyped] = useState(inAddress);
  const written = useRef(inAddress);
  useEffect(() => {
    if (inAddress === written.current) return;
    written.current = inAddress;
    setTyped(inAddress);
  }, [inAddress]);
  useEffect(() => {
    const q = typed.trim();
    if (q === written.current) return;
    const timer = setTimeout(() => {
      written.current = q;
      void navigate({ search: (old) => ({ ...old, q: q || undefined }), replace: true });
    }, 250);
    return () => clearTimeout(timer);
  }, [typed, navigate]);
  return [typed, setTyped];
}

/** Scrolls to the top when the filter changes. */
function useTopAfter(filter: object) {
  const before = useRef(filter);
  useEffect(() => {
    if (before.current === filter) return;
    before.current = filter;
    window.scrollTo({ top: 0 });
  }, [filter]);
}

/** Opens the first result, waiting for it if the search is still running. */
function useEnter(pages: ToolPages, rows: React.RefObject<RowsHandle | null>): () => void {
  const requested = useRef(false);
  const { stale, first } = pages;
  const open = useCallback(() => {
    requested.current = stale;
    if (!stale) rows.current?.open(0);
  }, [stale, rows]);
  useEffect(() => {
    if (requested.current && !stale) open();
  }, [stale, first, open]);
  return open;
}

type ChosenProps = { search: CatalogSearch; pages: ToolPages; narrow: (more: CatalogSearch) => void; onClear: () => void };

/** The number of tools, and the active filters with buttons to remove them. */
function Chosen({ search, pages, narrow, onClear }: ChosenProps) {
  const total = pages.first?.total;
  return (
    <div className="Catalog-chosen">
      <p role="status" className="soft">{total === undefined ? "…" : plural(total, "tool")}</p>
      {filterNames.map((name) => {
        const value = search[name];
        if (!value) return null;
        const words = `${filterLabels[name]}: ${visible(valueLabel(name, value))}`;
        return <Button key={name} size="s" icon={<X />} aria-label={`Remove ${words}`} onClick={() => narrow({ [name]: undefined })}>{words}</Button>;
      })}
      {search.problem === "true" && <Button size="s" icon={<X />} onClick={() => narrow({ problem: undefined })}>With problems</Button>}
      {isFiltered(search) && <Button size="s" variant="quiet" onClick={onClear}>Clear all</Button>}
    </div>
  );
}

type FoundProps = {
  pages: ToolPages;
  typed: string;
  chosen: boolean;
  onClear: () => void;
  rows: React.RefObject<RowsHandle | null>;
  onLeave: () => void;
};

function Found({ pages, typed, chosen, onClear, rows, onLeave }: FoundProps) {
  const words = useMemo(() => wordsOf(typed), [typed]);
  const { first, error, retry, rowAt, onVisible } = pages;
  if (error) return <ErrorState error={error} onRetry={retry} />;
  if (!first) return <Skeleton lines={8} />;
  if (first.total === 0) {
    return (
      <EmptyState icon={<SearchX />} title="No matching tools" action={<Button onClick={onClear}>{chosen ? "Clear search and filters" : "Clear search"}</Button>}>
        {typed.trim() === "" ? "No tool matches the filters." : <>No tool matches “{typed.trim()}”{chosen && " with these filters"}.</>}
      </EmptyState>
    );
  }
  return <Rows total={first.total} rowAt={rowAt} onVisible={onVisible} words={words} handle={rows} onLeave={onLeave} />;
}

function NoTools() {
  return (
    <EmptyState icon={<Package />} title="No tools yet">
      <div className="Catalog-first stack-s">
        <p>Create your first tool in TypeScript:</p>
        <Code text="toolyard new hello" label="Command that creates a tool" />
        <p>Or add an MCP server under <code>servers</code> in <code>toolyard.yaml</code>.</p>
      </div>
    </EmptyState>
  );
}
