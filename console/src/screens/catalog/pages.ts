import { keepPreviousData, queryOptions, useQueries, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { get } from "../../api/client";
import type { ToolFilter, ToolItem, ToolList } from "../../api/types";

const pageSize = 100;

/** The query for one page of the catalog. */
function pageOf(filter: ToolFilter, page: number) {
  return queryOptions({
    queryKey: ["tools", "page", filter, page],
    queryFn: ({ signal }) => get<ToolList>("/tools", { ...filter, limit: pageSize, offset: page * pageSize }, signal),
    staleTime: 15_000,
  });
}

export type ToolPages = {
  /** The first page, with the total and the facets. */
  first: ToolList | undefined;
  error: unknown;
  retry: () => void;
  /** Whether the data belongs to the previous filter. */
  stale: boolean;
  rowAt: (index: number) => ToolItem | undefined;
  /** Reports the visible rows, whose pages are loaded. */
  onVisible: (first: number, last: number) => void;
};

/** Loads the first page of the catalog, and others when their rows become visible. */
export function useToolPages(filter: ToolFilter): ToolPages {
  const [visible, setVisible] = useState({ from: 0, to: 0 });
  const { data: first, error, refetch, isPlaceholderData: stale } = useQuery({ ...pageOf(filter, 0), placeholderData: keepPreviousData });
  const needed = stale || !first ? [] : pagesBetween(Math.max(1, visible.from), Math.min(visible.to, Math.ceil(first.total / pageSize) - 1));
  const others = useQueries({ queries: needed.map((page) => pageOf(filter, page)) });
  return {
    first,
    error,
    retry: () => void refetch(),
    stale,
    rowAt: (index) => {
      const page = Math.floor(index / pageSize);
      const list = page === 0 ? first : others[needed.indexOf(page)]?.data;
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
