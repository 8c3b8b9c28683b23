import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { SlidersHorizontal, X } from "lucide-react";
import { type KeyboardEvent, useEffect, useId, useState } from "react";
import { queries } from "../../api/queries";
import type { TextSearch } from "../../search";
import { Button } from "../../components/Button";
import { TextField } from "../../components/Field";
import { Select } from "../../components/Select";
import { Switch } from "../../components/Toggle";
import { absolute, plural } from "../../format";
import { useDelayed } from "../../useDelayed";
import { codes, codeLabel } from "./codes";
import { localInput, spans } from "./span";

export type CallSearch = TextSearch<"view" | "account" | "caller" | "session" | "server" | "tool" | "gate" | "code" | "failed" | "parent" | "since" | "until">;

type FiltersProps = { search: CallSearch; narrow: (more: CallSearch) => void; clear: () => void; own: boolean };

/** The active filters. */
export function chosen({ view: _, ...filters }: CallSearch): string[] {
  return Object.values(filters).filter((value) => value !== undefined);
}

const any = { value: "", label: "Any" };

/** The list's filters, stored in the URL. */
export function Filters({ search, narrow, clear, own }: FiltersProps) {
  const [open, setOpen] = useState(false);
  const id = useId();
  const set = chosen(search).length;
  return (
    <div className="stack-s">
      <Button className="Calls-open" icon={<SlidersHorizontal />} aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)}>
        Filters{set > 0 && ` (${set})`}
      </Button>
      <div className="Calls-filters" id={id} data-open={open}>
        <Period search={search} narrow={narrow} />
        {own ? <OwnNames search={search} narrow={narrow} /> : <Names search={search} narrow={narrow} />}
        <Select label="Outcome" value={search.code ?? ""} items={codeItems(search.code)} onChange={(code) => narrow({ code: code || undefined })} />
        <div className="Calls-last">
          <Switch label="Failed only" checked={search.failed === "true"} onChange={(failed) => narrow({ failed: failed ? "true" : undefined })} />
          {set > 0 && <Button size="s" variant="quiet" icon={<X />} onClick={clear} aria-label={`Clear ${plural(set, "filter")}`}>Clear</Button>}
        </div>
      </div>
      <Chosen search={search} narrow={narrow} />
    </div>
  );
}

function Names({ search, narrow }: Pick<FiltersProps, "search" | "narrow">) {
  return (
    <>
      <ToolFilter value={search.tool} onPick={(tool) => narrow({ tool })} />
      <ServerFilter value={search.server} onPick={(server) => narrow({ server })} />
      <GateFilter value={search.gate} onPick={(gate) => narrow({ gate })} />
      <Named label="Caller" value={search.caller} onPick={(caller) => narrow({ caller })} />
      <AccountFilter value={search.account} onPick={(account) => narrow({ account })} />
    </>
  );
}

/** Name filters with no suggestions, for callers that cannot view the whole yard. */
function OwnNames({ search, narrow }: Pick<FiltersProps, "search" | "narrow">) {
  return (
    <>
      <Named label="Tool" value={search.tool} onPick={(tool) => narrow({ tool })} />
      <Named label="Server" value={search.server} onPick={(server) => narrow({ server })} />
      <Named label="Gate" value={search.gate} onPick={(gate) => narrow({ gate })} />
      <Named label="Caller" value={search.caller} onPick={(caller) => narrow({ caller })} />
    </>
  );
}

function codeItems(chosen: string | undefined) {
  const known = chosen && !codes.includes(chosen) ? [...codes, chosen] : codes;
  return [any, ...known.map((code) => ({ value: code, label: codeLabel(code) }))];
}

/** Active filters that have no input and are set by links. */
function Chosen({ search, narrow }: Pick<FiltersProps, "search" | "narrow">) {
  if (!search.session && !search.parent) return null;
  return (
    <div className="Calls-chosen">
      {search.session && <Button size="s" icon={<X />} onClick={() => narrow({ session: undefined })}>Session {search.session}</Button>}
      {search.parent && <Button size="s" icon={<X />} onClick={() => narrow({ parent: undefined })}>Parent {search.parent}</Button>}
    </div>
  );
}

function Period({ search, narrow }: Pick<FiltersProps, "search" | "narrow">) {
  const { since = "", until } = search;
  const [asked, setAsked] = useState(false);
  const known = !until && spans.some((span) => span.value === since);
  const custom = asked || !known;
  const items = [...spans, { value: "custom", label: "Custom" }];
  const choose = (value: string) => {
    setAsked(value === "custom");
    if (value !== "custom") narrow({ since: value || undefined, until: undefined });
  };
  return (
    <>
      <Select label="Time" value={custom ? "custom" : since} items={items} onChange={choose} />
      {custom && (
        <>
          <Moment label="From" value={since} onPick={(at) => narrow({ since: at })} />
          <Moment label="To" value={until} onPick={(at) => narrow({ until: at })} />
        </>
      )}
    </>
  );
}

function Moment({ label, value, onPick }: { label: string; value: string | undefined; onPick: (at: string | undefined) => void }) {
  const pick = (text: string) => {
    const at = new Date(text);
    onPick(Number.isNaN(at.getTime()) ? undefined : at.toISOString());
  };
  return <TextField label={label} type="datetime-local" value={localInput(value)} onChange={pick} title={value ? absolute(value) : "In your time zone"} />;
}

type PickProps = { value: string | undefined; onPick: (value: string | undefined) => void };

function ToolFilter({ value, onPick }: PickProps) {
  const [typed, setTyped] = useState("");
  const found = useQuery({ ...queries.tools({ q: typed, limit: 20 }), enabled: typed.length > 1 });
  const names = typed.length > 1 ? [...new Set(found.data?.tools.map((tool) => tool.name))] : [];
  return <Named label="Tool" value={value} onPick={onPick} suggestions={names} onType={setTyped} />;
}

function ServerFilter({ value, onPick }: PickProps) {
  const servers = useQuery({ ...queries.servers(), refetchInterval: false });
  return <Named label="Server" value={value} onPick={onPick} suggestions={servers.data?.servers.map((server) => server.id) ?? []} />;
}

function AccountFilter({ value, onPick }: PickProps) {
  const [typed, setTyped] = useState("");
  const rested = useDelayed(typed, 200);
  const found = useInfiniteQuery(queries.accounts({ q: rested || undefined, limit: 20 }));
  const names = found.data?.pages[0]?.accounts.map((account) => account.id) ?? [];
  return <Named label="Account" value={value} onPick={onPick} suggestions={names} onType={setTyped} />;
}

function GateFilter({ value, onPick }: PickProps) {
  const gates = useQuery(queries.gates());
  const names = new Set([...(gates.data?.gates.map((gate) => gate.name) ?? []), ...(value ? [value] : [])]);
  return <Select label="Gate" value={value ?? ""} items={[any, ...[...names].map((name) => ({ value: name, label: name }))]} onChange={(name) => onPick(name || undefined)} />;
}

type NamedProps = PickProps & { label: string; suggestions?: string[]; onType?: (text: string) => void };

/** A name filter, applied with Enter, on blur, or by choosing a suggestion. */
function Named({ label, value = "", onPick, suggestions = [], onType }: NamedProps) {
  const [text, setText] = useState(value);
  const id = useId();
  useEffect(() => setText(value), [value]);
  const commit = (next: string) => next.trim() !== value && onPick(next.trim() || undefined);
  const type = (next: string) => {
    setText(next);
    onType?.(next.trim());
    if (next === "" || suggestions.includes(next)) commit(next);
  };
  const press = (event: KeyboardEvent) => event.key === "Enter" && commit(text);
  return (
    <>
      <TextField label={label} value={text} onChange={type} onBlur={() => commit(text)} onKeyDown={press} list={id} placeholder="Any" maxLength={256} autoComplete="off" spellCheck={false} />
      <datalist id={id}>{suggestions.map((each) => <option key={each} value={each} />)}</datalist>
    </>
  );
}
