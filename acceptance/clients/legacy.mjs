// Lists and calls tools with the official TypeScript SDK 1.x.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const target = process.argv[2];
const transport = target.startsWith('http')
  ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ command: target, args: ['serve'], stderr: 'ignore' });
const client = new Client({ name: 'legacy', version: '1' });
await client.connect(transport);
const { tools } = await client.listTools();
const result = await client.callTool({ name: 'hello', arguments: { name: 'Ann' } });
const refused = await client.callTool({ name: 'hello', arguments: {} });
console.log(JSON.stringify({ tools: tools.map((t) => t.name), text: result.content[0].text, refused: refused.isError, server: client.getServerVersion().name, version: transport.protocolVersion ?? '2025-11-25' }));
await client.close();
