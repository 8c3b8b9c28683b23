import { Link } from "@tanstack/react-router";
import { defaultRangeExtractor, type Range, useWindowVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type RefObject, useCallback, useEffect, useImperativeHandle, useLayoutEffect, useRef, useState, useSyncExternalStore } from "react";
import type { ToolItem } from "../../api/types";
import { Badge, Status } from "../../components/Badge";
import { count, plural, price } from "../../format";
import { visible } from "../../format/visible";
import { highlight } from "./highlight";
import { shortLimit } from "./limit";

export type RowsHandle = { focus: (index: number) => void; open: (index: number) => void };

type RowsProps = {
  total: number;
  rowAt: (index: number) => ToolItem | undefined;
  onVisible: (first: number, last: number) => void;
  words: string[];
  /** Called on arrow up in the first row. */
  onLeave: () => void;
  handle: RefObject<RowsHandle | null>;
};

const heights = { wide: 58, narrow: 92 };

/**
 * The catalog's virtualized rows; the page itself scrolls. One row is in the tab order, and
 * the arrow keys, Home, End, PageUp and PageDown move between rows.
 */
export function Rows({ total, rowAt, onVisible: onSee, words, onLeave, handle }: RowsProps) {
  const list = useRef<HTMLDivElement>(null);
  const height = useNarrow() ? heights.narrow : heights.wide;
  const top = useTop(list);
  const [active, setActive] = useState(0);
  const current = Math.min(active, total - 1);
  const rows = useWindowVirtualizer({
    count: total,
    estimateSize: () => height,
    scrollMargin: top,
    overscan: 8,
    scrollPaddingStart: 64, // height of the top bar
    scrollPaddingEnd: 64,
    rangeExtractor: useCallback((range: Range) => withRow(defaultRangeExtractor(range), current), [current]),
  });
  useEffect(() => rows.measure(), [rows, height]);
  const { startIndex = 0, endIndex = 0 } = rows.range ?? {};
  useEffect(() => onSee(startIndex, endIndex), [onSee, startIndex, endIndex]);
  const focus = useRowFocus(list, current, (index) => {
    setActive(index);
    rows.scrollToIndex(index, { align: "auto" });
  });
  useImperativeHandle(handle, () => ({ focus, open: (index) => linkOf(list, index)?.click() }));
  const press = (event: KeyboardEvent) => {
    const next = target(event.key, current, total, Math.max(1, Math.floor(window.innerHeight / height) - 3));
    if (next === undefined) return;
    event.preventDefault();
    if (next < 0) onLeave();
    else focus(next);
  };
  return (
    <div ref={list} className="Rows" role="table" tabIndex={-1} aria-label="Tools" aria-rowcount={total + 1} onKeyDown={press}>
      <Header />
      <div role="rowgroup" style={{ height: rows.getTotalSize(), position: "relative" }}>
        {rows.getVirtualItems().map((item) => (
          <div key={item.key} role="row" data-index={item.index} aria-rowindex={item.index + 2} className="Rows-row" style={{ height, transform: `translateY(${item.start - top}px)` }}>
            <Row tool={rowAt(item.index)} words={words} reachable={item.index === current} />
          </div>
        ))}
      </div>
    </div>
  );
}

function linkOf(list: RefObject<HTMLElement | null>, index: number): HTMLElement | null | undefined {
  return list.current?.querySelector<HTMLElement>(`[data-index="${index}"] a`);
}

/** Moves the focus to a row. While the row is loading, the list has the focus. */
function useRowFocus(list: RefObject<HTMLElement | null>, current: number, go: (index: number) => void): (index: number) => void {
  const wanted = useRef(false);
  const take = () => {
    const link = linkOf(list, current);
    wanted.current = link == null;
    (link ?? list.current)?.focus({ preventScroll: true });
  };
  useEffect(() => {
    if (wanted.current) take();
  });
  return (index) => {
    wanted.current = true;
    go(index);
    if (index === current) take();
  };
}

/** The target row for a key; -1 leaves the list, undefined ignores the key. */
function target(key: string, now: number, total: number, page: number): number | undefined {
  const last = total - 1;
  switch (key) {
    case "ArrowDown": return Math.min(now + 1, last);
    case "ArrowUp": return now - 1;
    case "PageDown": return Math.min(now + page, last);
    case "PageUp": return Math.max(now - page, 0);
    case "Home": return 0;
    case "End": return last;
  }
  return undefined;
}

/** Keeps the focused row rendered wherever the page is scrolled to. */
function withRow(shown: number[], row: number): number[] {
  if (row < 0 || shown.includes(row)) return shown;
  return row < (shown[0] ?? 0) ? [row, ...shown] : [...shown, row];
}

function Header() {
  return (
    <div role="rowgroup" className="Rows-heads">
      <div role="row" aria-rowindex={1} className="Rows-head">
        <span role="columnheader">Tool</span>
        <span role="columnheader">Mode</span>
        <span role="columnheader" className="right">Price</span>
        <span role="columnheader" className="Rows-limit right">Limit</span>
        <span role="columnheader" className="Rows-tokens right" title="Approximate size of the definition in a prompt">Tokens</span>
        <span role="columnheader" className="Rows-gates right" title="Number of gates that offer the tool">Gates</span>
      </div>
    </div>
  );
}

function Row({ tool, words, reachable }: { tool: ToolItem | undefined; words: string[]; reachable: boolean }) {
  if (!tool) {
    return (
      <div role="cell" className="Rows-tool" aria-label="Loading">
        <div className="Skeleton Rows-waits" />
        <div className="Skeleton Rows-waits" />
      </div>
    );
  }
  return (
    <>
      <div role="cell" className="Rows-tool">
        <div className="row">
          <Link to="/tools/$source/$name" params={{ source: tool.server ?? "-", name: tool.name }} className="Rows-link mono cut" title={tool.name} tabIndex={reachable ? 0 : -1}>
            <Highlighted text={visible(tool.name)} words={words} />
          </Link>
          {tool.server && <span className="Rows-server faint small cut" title={tool.server}><Highlighted text={tool.server} words={words} /></span>}
          {tool.down && <Status tone="bad" title="The server of this tool is down">down</Status>}
          {tool.problems !== undefined && tool.problems > 0 && <Status tone="warn">{plural(tool.problems, "problem")}</Status>}
        </div>
        <p className="soft cut" title={visible(tool.summary)}><Highlighted text={visible(tool.summary)} words={words} /></p>
      </div>
      <Numbers tool={tool} />
    </>
  );
}

function Numbers({ tool }: { tool: ToolItem }) {
  const free = price(tool.priceUsd) === "free";
  return (
    <>
      <span role="cell" className="Rows-cell"><Badge tone={tool.mode === "write" ? "warn" : "neutral"}>{tool.mode}</Badge></span>
      <span role="cell" className={free ? "Rows-cell right faint" : "Rows-cell right"}>{price(tool.priceUsd)}</span>
      <span role="cell" className="Rows-cell Rows-limit right">{shortLimit(tool.rateLimit) ?? <span className="faint" aria-label="none">–</span>}</span>
      <span role="cell" className="Rows-cell Rows-tokens right">{count(tool.tokens)}<span className="only-narrow faint"> tokens</span></span>
      <span role="cell" className={tool.gates === 0 ? "Rows-cell Rows-gates right faint" : "Rows-cell Rows-gates right"}>{count(tool.gates)}<span className="only-narrow faint"> {tool.gates === 1 ? "gate" : "gates"}</span></span>
    </>
  );
}

function Highlighted({ text, words }: { text: string; words: string[] }) {
  return highlight(text, words).map((part, i) => (part.match ? <mark key={i} className="Rows-mark">{part.text}</mark> : part.text));
}

/** Observes the list's offset in the page. */
function useTop(list: RefObject<HTMLElement | null>): number {
  const [top, setTop] = useState(0);
  useLayoutEffect(() => {
    const body = list.current?.querySelector<HTMLElement>(":scope > [role=rowgroup]:last-child");
    if (body) setTop(Math.round(body.getBoundingClientRect().top + window.scrollY));
  });
  return top;
}

const narrow = typeof window === "undefined" ? undefined : window.matchMedia("(max-width: 720px)");

function useNarrow(): boolean {
  return useSyncExternalStore(
    (changed) => {
      narrow?.addEventListener("change", changed);
      return () => narrow?.removeEventListener("change", changed);
    },
    () => narrow?.matches ?? false,
  );
}
