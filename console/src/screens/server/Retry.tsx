import { useMutation, useQueryClient } from "@tanstack/react-query";
import { RotateCw } from "lucide-react";
import { retryServer } from "../../api/actions";
import { Button } from "../../components/Button";
import { toast } from "../../components/Toast";

type RetryProps = { id: string; up?: boolean; size?: "m" | "s" };

/** A button that reconnects immediately, without waiting for the backoff. If the server is up, it lists the tools again. */
export function Retry({ id, up = false, size = "m" }: RetryProps) {
  const word = up ? "Refresh" : "Reconnect";
  const client = useQueryClient();
  const retry = useMutation({
    mutationFn: () => retryServer(id),
    onSuccess: (server) => toast.good(up ? `Listing tools from ${id} again.` : server.state === "up" ? `${id} is up.` : `Reconnecting to ${id}.`),
    onError: (error) => toast.bad(error),
    onSettled: () => client.invalidateQueries({ queryKey: ["servers"] }),
  });
  return (
    <Button size={size} icon={<RotateCw aria-hidden="true" />} busy={retry.isPending} aria-label={`${word} ${id}`} onClick={() => retry.mutate()}>
      {word}
    </Button>
  );
}
