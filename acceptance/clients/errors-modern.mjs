// The official TypeScript client of the 2.x line.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { printErrors } from './errors.mjs';

const [url, calls] = process.argv.slice(2);
const client = new Client({ name: 'modern', version: '1' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
await printErrors(client, new StreamableHTTPClientTransport(new URL(url)), calls);
