// Prints error results with the official TypeScript SDK 1.x.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { printErrors } from './errors.mjs';

const [url, calls] = process.argv.slice(2);
await printErrors(new Client({ name: 'legacy', version: '1' }), new StreamableHTTPClientTransport(new URL(url)), calls);
