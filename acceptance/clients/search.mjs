// Finds, describes and calls a tool at a search gate with an official SDK. Usage: node search.mjs
// modern|legacy GATE_URL
const [era, gate] = process.argv.slice(2);
const { Client } = await import(era === 'modern' ? '@modelcontextprotocol/client' : '@modelcontextprotocol/sdk/client/index.js');
const { StreamableHTTPClientTransport } = await import(era === 'modern' ? '@modelcontextprotocol/client' : '@modelcontextprotocol/sdk/client/streamableHttp.js');

const client = new Client({ name: 'search', version: '1' }, era === 'modern' ? { versionNegotiation: { mode: { pin: '2026-07-28' } } } : {});
await client.connect(new StreamableHTTPClientTransport(new URL(gate)));
const text = async (name, args) => (await client.callTool({ name, arguments: args })).content[0].text;
const { tools } = await client.listTools();
console.log(JSON.stringify({
  tools: tools.map((t) => t.name),
  found: await text('search_tools', { query: 'Please say hello to Ann for me.' }),
  described: await text('describe_tools', { names: ['hello', 'nothing'] }),
  called: await text('call_tool', { name: 'hello', arguments: { name: 'Ann' } }),
  direct: await text('hello', { name: 'Bob' }),
}));
await client.close();
