// Shared helpers for the browser tests: pages that are monitored for errors, sign-in, an MCP
// client, and the report.
//
// A script's argument is a JSON object with these members: url, the yard's URL; tokens, with the
// keys operator, viewer and caller (which has no scopes); artifacts, a folder for screenshots of
// failures; browser, the endpoint of a running Chromium (optional); and script-specific settings.
// The script prints figures and faults.
import { join } from 'node:path';
import { chromium, launch } from './chromium.mjs';

export const settings = JSON.parse(process.argv[2]);
export const sizes = { wide: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } };
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const faults = [];
const steps = {};
const figures = {};
const values = {};

/** Records a fault unless the condition holds. */
export function check(what, holds, found) {
  if (holds) return;
  faults.push(found === undefined ? what : `${what}: ${JSON.stringify(found)?.slice(0, 1000)}`);
}

/** Waits until a condition holds, and records a fault if it does not. */
export async function eventually(what, holds, found) {
  for (const deadline = Date.now() + 60_000; !(await holds()); await sleep(20)) {
    if (Date.now() > deadline) return check(what, false, await found?.());
  }
}

/** Records a figure for the table printed by the test. */
export function figure(name, text) {
  figures[name] = String(text);
}

/** Returns a value to the Go test for comparison. */
export function value(name, text) {
  values[name] = text;
}

/** The quantile of samples. */
export function quantile(samples, share) {
  const sorted = samples.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)];
}

/** Measures how late the timers of this process are, which shows how busy the machine is; the result is the p95 in ms. */
export function lateness() {
  const samples = [0];
  let last = performance.now();
  const timer = setInterval(() => {
    samples.push(Math.max(0, performance.now() - last - 10));
    last = performance.now();
  }, 10);
  return () => {
    clearInterval(timer);
    return quantile(samples, 0.95);
  };
}

let browser;

/** Runs a script, closes the browser, and prints the report. */
export async function main(script) {
  try {
    browser = settings.browser ? await chromium.connect(settings.browser) : await chromium.launch(launch);
    await script();
  } catch (error) {
    faults.push(String(error.stack ?? error));
  } finally {
    await browser?.close();
    console.log(JSON.stringify({ figures, values, faults, steps }));
  }
}

/** Runs one step. On failure it takes a screenshot, and the next steps still run. */
export async function step(page, name, act) {
  const began = Date.now();
  try {
    await act();
  } catch (error) {
    const file = join(settings.artifacts, `${name.replaceAll(/\W+/g, '-')}.png`);
    await page.screenshot({ path: file }).catch(() => undefined);
    faults.push(`${name}: ${String(error.message).slice(0, 1500)} (at ${page.url()}, see ${file})`);
  }
  steps[name] = Date.now() - began;
  process.stderr.write(`${name}: ${steps[name]} ms\n`);
}

/**
 * Opens a page in its own context. Console errors, failed requests, requests to other hosts than that of
 * an issuer, and violations of the Content Security Policy are faults.
 */
export async function open({ size = sizes.wide, theme = 'light', issuer } = {}) {
  const context = await browser.newContext({ viewport: size, colorScheme: theme, reducedMotion: 'reduce', baseURL: settings.url, hasTouch: size.width < 700 });
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const expected = [];
  await page.exposeFunction('forbidden', (what) => check('violation of the Content Security Policy', false, what));
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => window.forbidden(`${event.violatedDirective}: ${event.blockedURI || event.sample}`));
  });
  page.on('console', (message) => {
    const refusal = message.text().startsWith('Failed to load resource'); // the response handler reports it with details
    if (message.type() === 'error' && !refusal) check(`console error on ${page.url()}`, false, message.text());
  });
  page.on('pageerror', (error) => check(`exception on ${page.url()}`, false, String(error.stack)));
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (!['data:', 'blob:'].includes(url.protocol)) check('a request to another host', [new URL(settings.url).origin, issuer].includes(url.origin), request.url());
  });
  page.on('requestfailed', (request) => {
    const why = request.failure()?.errorText; // outdated requests are aborted
    check('a request failed', why === 'net::ERR_ABORTED', { url: request.url(), why });
  });
  page.on('response', (response) => {
    if (response.status() < 400) return;
    const request = `${response.status()} ${response.request().method()} ${new URL(response.url()).pathname}`;
    check('a request was refused', expected.some((pattern) => pattern.test(request)), request);
  });
  return { context, page, expect: (pattern) => expected.push(pattern) };
}

/** Signs in on an open sign-in page. */
export async function signIn(page, key) {
  await page.getByLabel('Key', { exact: true }).fill(key);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: /^Sign in/ }).waitFor({ state: 'detached' });
}

/** Opens a page and signs in with a key. */
export async function enter(key, path = '/', options = {}) {
  const opened = await open(options);
  await opened.page.goto(`/console${path}`);
  await signIn(opened.page, key);
  await settled(opened.page);
  return opened;
}

/** Navigates to another screen without a page load. */
export async function go(page, path) {
  await page.evaluate((to) => {
    history.pushState(null, '', to);
    dispatchEvent(new PopStateEvent('popstate'));
  }, `/console${path}`);
  await settled(page);
}

/** Waits until the browser has painted two frames. It may paint none, for example while another page has the focus: then a second has to do. */
export async function painted(page) {
  await page.evaluate(() => new Promise((done) => {
    requestAnimationFrame(() => requestAnimationFrame(done));
    setTimeout(done, 1000);
  }));
}

/** Waits until a screen and its data are loaded. */
export async function settled(page) {
  await page.locator('h1').first().waitFor();
  await page.waitForFunction(() => !document.querySelector('.Skeleton') && !document.querySelector('main[aria-busy=true]'));
}

/** Sends a request to the API. */
export async function api(key, method, path, body) {
  const answer = await fetch(`${settings.url}/api/v1${path}`, {
    method,
    headers: { Authorization: `Bearer ${key}`, ...(body !== undefined && { 'Content-Type': 'application/json' }) },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  return { status: answer.status, ...(text && JSON.parse(text)) };
}

/** Sends an MCP 2026-07-28 request to a gate. */
export async function mcp(gate, method, params = {}, key = '') {
  const meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} };
  const answer = await fetch(`${settings.url}/mcp/${gate}`, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      'Mcp-Protocol-Version': '2026-07-28',
      'Mcp-Method': method,
      ...(params.name && { 'Mcp-Name': params.name }),
      ...(key && { Authorization: `Bearer ${key}` }),
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { _meta: meta, ...params } }),
  });
  if (!answer.ok) return { status: answer.status };
  const text = await answer.text();
  const streamed = text.match(/^data: (\{.*\})$/gm)?.at(-1)?.slice('data: '.length);
  return { status: answer.status, ...JSON.parse(streamed ?? text) };
}

/** The tools that a gate lists, by name. */
export async function listed(gate, key) {
  const answer = await mcp(gate, 'tools/list', {}, key);
  return new Map(answer.result.tools.map((tool) => [tool.name, tool]));
}

/** Polls until a condition holds, and returns the elapsed milliseconds. */
export async function until(what, holds, limit = 60_000) {
  const began = performance.now();
  while (!(await holds())) {
    if (performance.now() - began > limit) throw new Error(`not within ${limit} ms: ${what}`);
    await sleep(20);
  }
  return Math.round(performance.now() - began);
}
