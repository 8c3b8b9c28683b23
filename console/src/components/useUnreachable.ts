import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { ApiError } from "../api/client";

/** The time of the last response, if the yard is unreachable now. An error response counts as reachable. */
export function useUnreachableSince(): number | undefined {
  const client = useQueryClient();
  const [since, setSince] = useState<number>();
  useEffect(() => {
    let last = Date.now(); // time of the last response
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

/** Reports whether an error means that the yard did not respond: no connection, or a proxy's gateway error. */
export function isUnreachable(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 0 || error.code === "HTTP_502" || error.code === "HTTP_504");
}
