// Calls a tool that uses elicitation, with the official TypeScript SDK 2.x. It accepts with a name
// or, if there is none, declines. The server is a URL, or a program started with a configuration.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [target, tool, name, config, args = '{}'] = process.argv.slice(2);
const asked = [];
const client = new Client(
  { name: 'modern', version: '1' },
  { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: { pin: '2026-07-28' } } },
);
client.setRequestHandler('elicitation/create', (request) => {
  asked.push(request.params.message);
  return name ? { action: 'accept', content: { name } } : { action: 'decline' };
});
const transport = target.startsWith('http')
  ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ command: target, args: ['serve', '--config', config], stderr: 'ignore' });
await client.connect(transport);
const result = await client.callTool({ name: tool, arguments: JSON.parse(args) });
console.log(JSON.stringify({ asked, text: result.content[0].text }));
await client.close();
