// Playwright, and the options that the scripts launch Chromium with.
import { createRequire } from 'node:module';

// The packages are installed in ../clients.
const require = createRequire(new URL('../clients/package.json', import.meta.url));
export const { chromium } = require('playwright-core');

// If there is no graphics card, rendering on the CPU is faster than emulating one.
export const launch = { executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--disable-gpu-rasterization'] };
