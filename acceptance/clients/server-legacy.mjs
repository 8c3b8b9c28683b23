// A legacy MCP server built with the official TypeScript SDK 1.x. It uses stdio, or streamable HTTP
// with MCP sessions at the given port.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';

function newServer() {
  const server = new McpServer({ name: 'legacy', version: '1' });
  server.registerTool('greet', { description: 'Greets.', inputSchema: { name: z.string() } }, ({ name }) => ({
    content: [{ type: 'text', text: `Hello, ${name}!` }],
  }));
  server.registerTool(
    'add',
    { description: 'Adds.', inputSchema: { a: z.number(), b: z.number() }, outputSchema: { sum: z.number() } },
    ({ a, b }) => ({ content: [{ type: 'text', text: String(a + b) }], structuredContent: { sum: a + b } }),
  );
  return server;
}

const port = process.argv[2];
if (port) {
  const sessions = new Map();
  createServer(async (req, res) => {
    let transport = sessions.get(req.headers['mcp-session-id']);
    if (!transport) {
      if (req.headers['mcp-session-id']) return res.writeHead(404).end();
      transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized: (id) => sessions.set(id, transport) });
      await newServer().connect(transport);
    }
    await transport.handleRequest(req, res);
  }).listen(Number(port), '127.0.0.1');
} else {
  await newServer().connect(new StdioServerTransport());
}
