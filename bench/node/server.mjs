// The tool of bench/scripts.go as the official TypeScript SDK serves it: one session, JSON
// answers, which is its fastest way. It prints its address when it is ready.
import { createRequire } from "node:module";
import http from "node:http";
import { pathToFileURL } from "node:url";

const require = createRequire(process.argv[2] + "/");
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { McpServer } = await load("@modelcontextprotocol/sdk/server/mcp.js");
const { StreamableHTTPServerTransport } = await load("@modelcontextprotocol/sdk/server/streamableHttp.js");
const { z } = await load("zod");

const server = new McpServer({ name: "node", version: "1" });
server.registerTool(
  "hello",
  { description: "Says hello.", inputSchema: { name: z.string(), greeting: z.string().default("Hello") } },
  async ({ name, greeting }) => ({ content: [{ type: "text", text: `${greeting}, ${name}!` }] }),
);
const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: () => "bench", enableJsonResponse: true });
await server.connect(transport);
const listener = http.createServer((req, res) => transport.handleRequest(req, res));
listener.listen(0, "127.0.0.1", () => console.log("127.0.0.1:" + listener.address().port));
