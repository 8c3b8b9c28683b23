import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { ApiError } from "../api/client";

/** Since when the yard is unreachable; undefined while it answers, also with a refusal. */
export function useUnreachableSince(): number | undefined {
  const client = useQueryClient();
  const [since, setSince] = useState<number>();
  useEffect(() => {
    let last = Date.now(); // when it answered last
    return client.getQueryCache().subscribe((event) => {
      if (event.type !== "updated") return;
      const { type } = event.action;
      if (type === "success") {
        last = Date.now();
        setSince(undefined);
      }
      if ((type === "error" || type === "failed") && isUnreachable(event.query.state.error ?? event.query.state.fetchFailureReason)) setSince(last);
    });
  }, [client]);
  return since;
}

/** Whether an error says that nobody answered: no connection, or a proxy without the yard behind it. */
export function isUnreachable(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 0 || error.code === "HTTP_502" || error.code === "HTTP_504");
}
