// Calls a tool that uses elicitation, with the official TypeScript SDK 1.x. It accepts with a name
// or, if there is none, declines. The server is a URL, or a program started with a configuration.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const [target, tool, name, config, args = '{}'] = process.argv.slice(2);
const asked = [];
const client = new Client({ name: 'legacy', version: '1' }, { capabilities: { elicitation: { form: {} } } });
client.setRequestHandler(ElicitRequestSchema, (request) => {
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
