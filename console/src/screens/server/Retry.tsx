import { useMutation, useQueryClient } from "@tanstack/react-query";
import { RotateCw } from "lucide-react";
import { retryServer } from "../../api/actions";
import { Button } from "../../components/Button";
import { toast } from "../../components/Toast";

/** A button that reconnects now instead of after the backoff. */
export function Retry({ id, size = "m" }: { id: string; size?: "m" | "s" }) {
  const client = useQueryClient();
  const retry = useMutation({
    mutationFn: () => retryServer(id),
    onSuccess: (server) => toast.good(server.state === "up" ? `${id} is up.` : `Reconnecting to ${id}.`),
    onError: (error) => toast.bad(error),
    onSettled: () => client.invalidateQueries({ queryKey: ["servers"] }),
  });
  return (
    <Button size={size} icon={<RotateCw aria-hidden="true" />} busy={retry.isPending} aria-label={`Reconnect ${id}`} onClick={() => retry.mutate()}>
      Reconnect
    </Button>
  );
}
