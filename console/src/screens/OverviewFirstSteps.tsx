import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { queries } from "../api/queries";
import { Code } from "../components/Code";

/** Instructions for connecting the first agent. */
export function FirstSteps() {
  const gates = useQuery(queries.gates());
  const gate = gates.data?.gates[0];
  const url = location.origin + (gate?.path ?? "/mcp");
  const config = JSON.stringify({ mcpServers: { toolyard: { type: "http", url } } }, null, 2);
  return (
    <div className="Overview-first">
      <div className="stack-s">
        <h3>No calls today</h3>
        <p className="soft">
          Agents connect over MCP{gate ? <> at the gate <strong>{gate.name}</strong></> : null}. Add this to your MCP client's configuration. Its calls appear here as they happen.
        </p>
        <p className="soft">
          Or open a tool in the <Link to="/catalog">catalog</Link> and run it.
        </p>
        {gate?.callers === "keys" && <p className="soft">The gate requires a key: <Link to="/keys">create one</Link> and send it as <code>Authorization: Bearer</code>.</p>}
      </div>
      <Code text={config} label="MCP client configuration" />
    </div>
  );
}
