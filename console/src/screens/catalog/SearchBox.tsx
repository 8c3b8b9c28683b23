import { Search } from "lucide-react";
import { type KeyboardEvent as ReactKeyboardEvent, type RefObject, useEffect } from "react";

type SearchBoxProps = {
  value: string;
  onChange: (text: string) => void;
  input: RefObject<HTMLInputElement | null>;
  /** Called on arrow down, to move into the list. */
  onDown: () => void;
  onEnter: () => void;
};

/** The catalog's search box. "/" focuses it, and arrow down moves to the rows. */
export function SearchBox({ value, onChange, input, onDown, onEnter }: SearchBoxProps) {
  useSlash(input);
  const press = (event: ReactKeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    if (event.key === "ArrowDown") {
      event.preventDefault();
      onDown();
    } else if (event.key === "Enter") {
      event.preventDefault();
      onEnter();
    } else if (event.key === "Escape" && value !== "") {
      event.preventDefault();
      onChange("");
    }
  };
  return (
    <div className="Catalog-search" role="search" aria-label="Catalog">
      <Search aria-hidden="true" />
      <input
        ref={input}
        type="search"
        className="Input"
        placeholder="Search by name, description, server or category"
        aria-label="Search the catalog"
        aria-keyshortcuts="/"
        maxLength={200}
        autoComplete="off"
        spellCheck={false}
        value={value}
        onChange={(event) => onChange(event.target.value)}
        onKeyDown={press}
      />
      <kbd className="only-wide" aria-hidden="true">/</kbd>
    </div>
  );
}

/** Handles "/" before the global search does. */
function useSlash(input: RefObject<HTMLInputElement | null>) {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      event.preventDefault();
      event.stopPropagation();
      input.current?.focus();
      input.current?.select();
    };
    window.addEventListener("keydown", press, { capture: true });
    return () => window.removeEventListener("keydown", press, { capture: true });
  }, [input]);
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));
}
