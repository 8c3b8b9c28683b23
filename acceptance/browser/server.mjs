// Starts the Chromium shared by all scripts of a test, prints its endpoint, and exits when standard
// input is closed.
import { createRequire } from 'node:module';

const require = createRequire(new URL('../clients/package.json', import.meta.url));
const { chromium } = require('playwright-core');

const server = await chromium.launchServer({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage'] });
console.log(server.wsEndpoint());
process.stdin.resume();
process.stdin.on('end', () => void server.close().then(() => process.exit(0)));
