// Uses all features of an MCP session with the official TypeScript SDK 1.x: list, call, progress,
// cancellation, elicitation, change notifications and termination. It prints the results.
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';

const { url, marker, server, apply } = JSON.parse(process.argv[2]);
const seen = { asked: [], answers: [], progress: 0, changes: [] };
let changes = 0;
const client = new Client({ name: 'journey', version: '1' }, { capabilities: { elicitation: { form: {} } } });
client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
  seen.asked.push(params.message);
  const content = Object.fromEntries(Object.keys(params.requestedSchema.properties).map((key) => [key, 'Ann']));
  return { action: 'accept', content };
});
client.setNotificationHandler(ToolListChangedNotificationSchema, () => void changes++);

// Whether the event stream is open. Earlier notifications are lost.
let open = false;
async function watchingFetch(target, init) {
  const response = await fetch(target, init);
  open ||= init?.method === 'GET' && response.ok;
  return response;
}
const transport = new StreamableHTTPClientTransport(new URL(url), { fetch: watchingFetch });
await client.connect(transport);
const call = async (name, args, options) => (await client.callTool({ name, arguments: args }, undefined, options)).content[0].text;

// Waits until a condition holds, for at most a minute.
async function until(holds) {
  for (const deadline = Date.now() + 60_000; !holds() && Date.now() < deadline; ) await new Promise((done) => setTimeout(done, 20));
}

// Makes a change and waits for its notification.
async function expectNotification(what, change) {
  const before = changes;
  await change();
  await until(() => changes > before);
  if (changes > before) seen.changes.push(what);
}

await until(() => open);
seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
seen.text = await call('echo', { text: 'hi' });
await call('test_tool_with_progress', {}, { onprogress: () => void seen.progress++ });

const controller = new AbortController();
const sleeping = call('sleep', { ms: 20_000, marker }, { signal: controller.signal }).then(() => 'slept', (error) => String(error));
await until(() => existsSync(`${marker}.started`));
controller.abort('enough');
seen.canceled = await sleeping;

seen.answers.push(await call('test_elicitation', { message: 'Who?' }));
seen.answers.push(await call(`mcp_${server}__ask`, {}));

await expectNotification('tool', () => call(`mcp_${server}__mutate`, {}));
await expectNotification('gate', () => execFileSync(apply[0], apply.slice(1)));

seen.session = transport.sessionId;
await transport.terminateSession();
await client.close();
console.log(JSON.stringify(seen));
