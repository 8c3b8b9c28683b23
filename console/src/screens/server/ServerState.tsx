import type { ServerItem } from "../../api/types";
import { StateStatus } from "../../components/Badge";
import { Since } from "../../components/Time";

/** A server's state and how long it has lasted: "Up for 24 min". */
export function ServerState({ server }: { server: Pick<ServerItem, "state" | "since"> }) {
  return (
    <span className="row">
      <StateStatus state={server.state} />
      <span className="faint small">for <Since at={server.since} /></span>
    </span>
  );
}
