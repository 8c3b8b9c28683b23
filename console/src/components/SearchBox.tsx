import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Search } from "lucide-react";
import { type FormEvent, type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import { queries } from "../api/queries";
import { useDelayed } from "../useDelayed";
import { type Destination, destinations, isCallId } from "./destinations";

/** The global search: tools, servers, and calls by ID. */
export function SearchBox() {
  const navigate = useNavigate();
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState("");
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const id = useId();
  useSlash(input);
  const found = useDestinations(text.trim(), open);
  const shown = open && found.length > 0;
  const leave = () => {
    setOpen(false);
    setAt(-1);
  };
  const go = (to: Destination) => {
    leave();
    setText("");
    void navigate(to.link);
  };
  const search = (event: FormEvent) => {
    event.preventDefault();
    const q = text.trim();
    const chosen = found[at] ?? found.find((each) => each.exact);
    if (chosen) return go(chosen);
    leave();
    if (isCallId(q)) void navigate({ to: "/calls/$id", params: { id: q } });
    else void navigate({ to: "/catalog", search: { q: q || undefined } });
  };
  const press = (event: KeyboardEvent) => {
    if (event.key === "Escape") leave();
    if ((event.key !== "ArrowDown" && event.key !== "ArrowUp") || !shown) return;
    event.preventDefault();
    setAt((old) => (event.key === "ArrowDown" ? Math.min(old + 1, found.length - 1) : Math.max(old - 1, -1)));
  };
  return (
    <form className="Layout-search" role="search" onSubmit={search} onBlur={(event) => !event.currentTarget.contains(event.relatedTarget) && leave()}>
      <Search aria-hidden="true" />
      <input
        ref={input}
        type="search"
        role="combobox"
        placeholder="Search tools, servers or call IDs"
        aria-label="Search"
        aria-expanded={shown}
        aria-controls={id}
        aria-activedescendant={shown && at >= 0 ? `${id}-${at}` : undefined}
        maxLength={200}
        autoComplete="off"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setOpen(true);
          setAt(-1);
        }}
        onKeyDown={press}
      />
      <kbd aria-hidden="true">/</kbd>
      <ul id={id} role="listbox" aria-label="Suggestions" className="Layout-found" hidden={!shown}>
        {found.map((each, i) => (
          <li key={each.key} id={`${id}-${i}`} role="option" aria-selected={i === at} onPointerDown={(event) => event.preventDefault()} onClick={() => go(each)}>
            <span className="cut" title={each.name}>{each.name}</span>
            <span className="faint">{each.kind}</span>
          </li>
        ))}
      </ul>
    </form>
  );
}

function useDestinations(typed: string, on: boolean): Destination[] {
  const q = useDelayed(typed, 120);
  const servers = useQuery({ ...queries.servers(), enabled: on, refetchInterval: false });
  const tools = useQuery({ ...queries.tools({ q, limit: 5 }), enabled: on && q.length > 1 });
  return destinations(typed, servers.data?.servers ?? [], q.length > 1 ? (tools.data?.tools ?? []) : []);
}

/** Focuses the search when "/" is pressed outside a field. */
function useSlash(input: { current: HTMLInputElement | null }) {
  useEffect(() => {
    const press = (event: globalThis.KeyboardEvent) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      event.preventDefault();
      input.current?.focus();
      input.current?.select();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, [input]);
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));
}
