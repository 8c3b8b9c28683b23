// Starts the Chromium that all scripts of a test share, prints its address, and ends with its standard
// input.
import { createRequire } from 'node:module';

const require = createRequire(new URL('../clients/package.json', import.meta.url));
const { chromium } = require('playwright-core');

const server = await chromium.launchServer({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage'] });
console.log(server.wsEndpoint());
process.stdin.resume();
process.stdin.on('end', () => void server.close().then(() => process.exit(0)));
