import { keepPreviousData, queryOptions, useQueries, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { get } from "../../api/client";
import type { ToolFilter, ToolItem, ToolList } from "../../api/types";

const pageSize = 100;

/** One page of the catalog. A query that nobody waits for any more is aborted. */
function pageOf(filter: ToolFilter, page: number) {
  return queryOptions({
    queryKey: ["tools", "page", filter, page],
    queryFn: ({ signal }) => get<ToolList>("/tools", { ...filter, limit: pageSize, offset: page * pageSize }, signal),
    staleTime: 15_000,
  });
}

export type ToolPages = {
  /** The first page: how many there are, and what they can be filtered by. */
  first: ToolList | undefined;
  error: unknown;
  retry: () => void;
  /** What is shown is of the filter before. */
  stale: boolean;
  rowAt: (index: number) => ToolItem | undefined;
  /** Tells which rows are seen, so that their pages are loaded. */
  onVisible: (first: number, last: number) => void;
};

/** The catalog by pages: the first one always, the others when their rows come into sight. */
export function useToolPages(filter: ToolFilter): ToolPages {
  const [visible, setVisible] = useState({ from: 0, to: 0 });
  const { data: first, error, refetch, isPlaceholderData: stale } = useQuery({ ...pageOf(filter, 0), placeholderData: keepPreviousData });
  const wanted = stale || !first ? [] : pagesBetween(Math.max(1, visible.from), Math.min(visible.to, Math.ceil(first.total / pageSize) - 1));
  const others = useQueries({ queries: wanted.map((page) => pageOf(filter, page)) });
  return {
    first,
    error,
    retry: () => void refetch(),
    stale,
    rowAt: (index) => {
      const page = Math.floor(index / pageSize);
      const list = page === 0 ? first : others[wanted.indexOf(page)]?.data;
      return list?.tools[index % pageSize];
    },
    onVisible: useMemo(
      () => (begin, end) => {
        const [from, to] = [Math.floor(begin / pageSize), Math.floor(end / pageSize)];
        setVisible((old) => (old.from === from && old.to === to ? old : { from, to }));
      },
      [],
    ),
  };
}

function pagesBetween(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => from + i);
}
