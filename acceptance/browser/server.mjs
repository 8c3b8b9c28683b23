// Starts the Chromium that all scripts of a test share, prints its endpoint, and exits when
// standard input is closed.
import { chromium, launch } from './chromium.mjs';

const server = await chromium.launchServer(launch);
console.log(server.wsEndpoint());
process.stdin.resume();
process.stdin.on('end', () => void server.close().then(() => process.exit(0)));
