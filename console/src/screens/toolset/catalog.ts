import { infiniteQueryOptions, keepPreviousData, type QueryClient } from "@tanstack/react-query";
import { get } from "../../api/client";
import { queries } from "../../api/queries";
import type { ToolFilter, ToolList } from "../../api/types";

const page = 200; // the API's maximum page size
const maxTools = 10_000; // per server

/** The catalog in pages, for infinite scrolling. */
export function catalogPages(filter: ToolFilter) {
  return infiniteQueryOptions({
    queryKey: ["tools", "pages", filter],
    queryFn: ({ pageParam, signal }) => get<ToolList>("/tools", { ...filter, limit: page, offset: pageParam }, signal),
    initialPageParam: 0,
    getNextPageParam: (last, _all, offset) => (offset + last.tools.length < last.total && last.tools.length > 0 ? offset + last.tools.length : undefined),
    staleTime: 15_000,
    placeholderData: keepPreviousData,
  });
}

/** The names of all of a server's tools. */
export async function namesOf(client: QueryClient, server: string): Promise<string[]> {
  const names: string[] = [];
  for (let offset = 0; offset < maxTools; offset += page) {
    const { tools, total } = await client.fetchQuery(queries.tools({ source: server, limit: page, offset }));
    names.push(...tools.map((tool) => tool.name));
    if (tools.length === 0 || names.length >= total) break;
  }
  return names;
}
