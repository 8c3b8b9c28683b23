// Prints error results with the official TypeScript SDK 2.x.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { printErrors } from './errors.mjs';

const [url, calls] = process.argv.slice(2);
const client = new Client({ name: 'modern', version: '1' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
await printErrors(client, new StreamableHTTPClientTransport(new URL(url)), calls);
