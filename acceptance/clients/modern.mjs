// Lists and calls tools with the official TypeScript SDK 2.x.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const target = process.argv[2];
const transport = target.startsWith('http')
  ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ command: target, args: ['serve'], stderr: 'ignore' });
const client = new Client({ name: 'modern', version: '1' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
await client.connect(transport);
const { tools } = await client.listTools();
const result = await client.callTool({ name: 'hello', arguments: { name: 'Ann' } });
const refused = await client.callTool({ name: 'hello', arguments: {} });
console.log(JSON.stringify({ tools: tools.map((t) => t.name), text: result.content[0].text, refused: refused.isError, server: client.getServerVersion()?.name, version: client.getNegotiatedProtocolVersion() }));
await client.close();
