// A modern MCP server built with the official TypeScript SDK 2.x. It uses stdio, or HTTP at the
// given port, and rejects legacy clients.
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { McpServer, createMcpHandler } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

function newServer() {
  const server = new McpServer({ name: 'modern', version: '1' });
  server.registerTool('greet', { description: 'Greets.', inputSchema: z.object({ name: z.string() }) }, ({ name }) => ({
    content: [{ type: 'text', text: `Hello, ${name}!` }],
  }));
  server.registerTool(
    'add',
    { description: 'Adds.', inputSchema: z.object({ a: z.number(), b: z.number() }), outputSchema: z.object({ sum: z.number() }) },
    ({ a, b }) => ({ content: [{ type: 'text', text: String(a + b) }], structuredContent: { sum: a + b } }),
  );
  return server;
}

const port = process.argv[2];
if (port) {
  const handler = createMcpHandler(newServer, { legacy: 'reject' });
  createServer(async (req, res) => {
    const gone = new AbortController();
    res.on('close', () => gone.abort());
    const body = req.method === 'POST' ? Readable.toWeb(req) : undefined;
    const answer = await handler.fetch(new Request(`http://${req.headers.host}${req.url}`, { method: req.method, headers: req.headers, body, duplex: 'half', signal: gone.signal }));
    res.writeHead(answer.status, Object.fromEntries(answer.headers));
    if (answer.body) Readable.fromWeb(answer.body).on('error', () => res.end()).pipe(res);
    else res.end();
  }).listen(Number(port), '127.0.0.1');
} else {
  serveStdio(newServer, { legacy: 'reject' });
}
