import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { queries } from "../api/queries";
import { Code } from "../components/Code";

/** For a yard that nobody called yet: how an agent comes to it. */
export function FirstSteps() {
  const gates = useQuery(queries.gates());
  const gate = gates.data?.gates[0];
  const url = location.origin + (gate?.path ?? "/mcp");
  const config = JSON.stringify({ mcpServers: { toolyard: { type: "http", url } } }, null, 2);
  return (
    <div className="Overview-first">
      <div className="stack-s">
        <h3>No call in the last hour, and none today</h3>
        <p className="soft">
          Agents reach this yard over MCP{gate ? <> at the gate <strong>{gate.name}</strong></> : null}. Put this into the configuration of a client; its calls appear here as they happen.
        </p>
        <p className="soft">
          Or try a tool yourself: open it in the <Link to="/catalog">catalog</Link> and fill in its form.
        </p>
        {gate?.callers === "keys" && <p className="soft">The gate asks for a key: <Link to="/keys">make one</Link> and send it as <code>Authorization: Bearer</code>.</p>}
      </div>
      <Code text={config} label="Configuration of an MCP client" />
    </div>
  );
}
