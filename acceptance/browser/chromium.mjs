// Playwright, and how the scripts launch Chromium.
import { createRequire } from 'node:module';

// The packages are installed in ../clients.
const require = createRequire(new URL('../clients/package.json', import.meta.url));
export const { chromium } = require('playwright-core');

// Without a graphics card, rendering on the processor is faster than emulating one.
export const launch = { executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--disable-gpu-rasterization'] };
