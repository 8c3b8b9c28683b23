import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type FocusEvent, type RefObject, type UIEvent, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { ApiError } from "../api/client";
import { queries } from "../api/queries";
import type { CallFilter } from "../api/types";
import { Card } from "../components/Card";
import { Page } from "../components/Page";
import { ErrorNote } from "../components/States";
import { Table } from "../components/Table";
import { useCanView } from "../session";
import { columnsOf } from "./calls/columns";
import { chosen, Filters, type CallSearch } from "./calls/Filters";
import { LiveBar } from "./calls/LiveBar";
import { NoCalls } from "./calls/NoCalls";
import { momentOf } from "./calls/span";
import { merge, maxRows, type Row } from "./calls/stream";
import { useLive } from "./calls/useLive";
import "./Calls.css";

const page = 200;
const loadMoreWithin = 600; // pixels above the end of the list

/** Recorded calls, with live calls on top. */
export default function Calls() {
  const own = !useCanView();
  const params = useSearch({ from: "/calls" });
  const search = useMemo(() => (own ? { ...params, account: undefined } : params), [own, params]); // callers that lack the viewer scope have only one account
  const navigate = useNavigate({ from: "/calls" });
  const list = useRef<HTMLDivElement>(null);
  const narrow = useCallback(
    (more: CallSearch) => {
      scrollToTop(list.current); // before the router stores the scroll position
      void navigate({ search: (old) => ({ ...old, ...more }) });
    },
    [navigate],
  );
  const clear = useCallback(() => {
    scrollToTop(list.current);
    void navigate({ search: {} });
  }, [navigate]);
  return (
    <Page title="Calls" description={`${own ? "Calls by your account" : "All tool calls"}, newest first. New calls appear as they happen.`}>
      <Filters search={search} narrow={narrow} clear={clear} own={own} />
      <CallList list={list} search={search} narrow={narrow} clear={clear} own={own} />
    </Page>
  );
}

type CallListProps = { list: RefObject<HTMLDivElement | null>; search: CallSearch; narrow: (more: CallSearch) => void; clear: () => void; own: boolean };

function CallList({ list, search, narrow, clear, own }: CallListProps) {
  const filter = useFilter(search);
  const [paused, setPaused] = useState(false);
  const scroll = useScrollState(list, filter);
  const history = useInfiniteQuery({ ...queries.calls({ ...filter, limit: page }), refetchOnWindowFocus: false });
  const live = useLive(filter, paused || scroll.away, search.until === undefined, () => void history.refetch());
  const unrecorded = history.error instanceof ApiError && history.error.status === 404;
  const recorded = useMemo(() => history.data?.pages.flatMap((each) => each.calls) ?? (unrecorded ? [] : undefined), [history.data, unrecorded]);
  const rows = useMemo(() => rowsOf(recorded, live.rows, filter.since), [recorded, live.rows, filter.since]);
  const columns = useMemo(() => columnsOf(narrow), [narrow]);
  const more = history.hasNextPage && (rows?.length ?? 0) < maxRows;
  const load = () => void (more && !history.isFetchingNextPage && history.fetchNextPage());
  const slowest = Math.max(1, ...(rows ?? []).map((row) => row.elapsedNs));
  return (
    <Card flush>
      <LiveBar live={live} on={search.until === undefined} paused={paused} away={scroll.away} onPause={setPaused} onTop={scroll.toTop} onReload={() => void history.refetch()} />
      {unrecorded && <p className="Calls-note">Calls are not recorded, so only live calls are listed. Add a <code>store</code> to <code>toolyard.yaml</code> to record them.</p>}
      {history.error && !unrecorded && rows && <div className="Calls-note"><ErrorNote error={history.error} /></div>}
      <div className="Calls-table" ref={list} onScrollCapture={(event) => scroll.scrolled(event, load)} onFocus={scroll.focused} onBlur={scroll.blurred} style={{ "--slowest": slowest }}>
        <Table
          label="Calls"
          columns={columns}
          rows={rows}
          rowKey={(row) => row.id}
          rowLink={(row) => (row.running ? undefined : { to: "/calls/$id", params: { id: row.id } })}
          error={history.error}
          onRetry={() => void history.refetch()}
          empty={<NoCalls filtered={chosen(search).length > 0} clear={clear} own={own} />}
          {...(more && { more: { load, loading: history.isFetchingNextPage } })}
        />
      </div>
      {(rows?.length ?? 0) >= maxRows && <p className="Calls-note">Showing the newest {maxRows.toLocaleString("en-US")} calls. To see other calls, choose an earlier period or another filter.</p>}
    </Card>
  );
}

function scrollToTop(list: HTMLElement | null) {
  list?.querySelector(".Table")?.scrollTo({ top: 0 });
}

/** The API filter from the URL. Relative periods are resolved once, when they are chosen. */
function useFilter({ account, caller, session, server, tool, gate, code, failed, parent, since, until }: CallSearch): CallFilter {
  return useMemo(
    () => ({ account, caller, session, server, tool, gate, code, failed: failed === "true" || undefined, parent, since: momentOf(since), until: momentOf(until) }),
    [account, caller, session, server, tool, gate, code, failed, parent, since, until],
  );
}

function rowsOf(history: Row[] | undefined, live: Row[], since: string | undefined): Row[] | undefined {
  const from = since ? Date.parse(since) : 0;
  if (!history) return live.length > 0 ? merge([], live) : undefined;
  return merge(history, live.filter((row) => Date.parse(row.at) >= from));
}

/**
 * Tracks whether the user has scrolled down or focused a row: the list must not move then. A new
 * filter resets it.
 */
function useScrollState(list: RefObject<HTMLElement | null>, filter: CallFilter) {
  const [scrolledDown, setScrolledDown] = useState(false);
  const [onRow, setOnRow] = useState(false);
  const toTop = () => {
    setOnRow(false);
    setScrolledDown(false);
    scrollToTop(list.current);
  };
  useEffect(toTop, [filter]);
  return {
    away: scrolledDown || onRow,
    toTop,
    scrolled: (event: UIEvent, load: () => void) => {
      const { scrollTop, scrollHeight, clientHeight } = event.target as HTMLElement;
      setScrolledDown(scrollTop > 8);
      if (scrollHeight - scrollTop - clientHeight < loadMoreWithin) load();
    },
    focused: ({ target }: FocusEvent) => setOnRow(target.closest("tbody") !== null && target.matches(":focus-visible")),
    blurred: () => setOnRow(false),
  };
}
