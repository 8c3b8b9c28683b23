// Takes the screenshots for the documentation in both themes, some of them in phone size.
import { join } from 'node:path';
import { api, enter, go, main, settings, sizes, sleep } from './page.mjs';

await main(async () => {
  await approveAllButOne();
  await openPositions();
  const screens = await addresses();
  for (const theme of ['light', 'dark']) {
    await take(screens, theme, 'wide', '');
    await take(screens.filter(([name]) => ['overview', 'tool', 'calls'].includes(name)), theme, 'phone', '-phone');
  }
});

// Returns the screens by name. For calls, it selects one with nested calls.
async function addresses() {
  const { pending } = await api(settings.operator, 'GET', '/overview');
  const { calls } = await api(settings.operator, 'GET', '/calls?tool=arrival_brief&limit=50');
  const nested = calls.filter((call) => call.code === 'OK' && call.marks).toSorted((a, b) => b.elapsedNs - a.elapsedNs)[0];
  return [
    ['overview', '/'],
    ['catalog', '/catalog'],
    ['tool', '/tools/-/convert_units?tab=try'],
    ['servers', '/servers'],
    ['approval', `/servers/${pending[0].server}?tab=pending&tool=${pending[0].tool}`],
    ['toolset', '/toolsets/operations'],
    ['calls', '/calls'],
    ['call', `/calls/${nested.id}`],
    ['spend', '/spend'],
    ['limits', '/limits'],
    ['packs', '/packs'],
    ['home', '/tools/-/list_devices?tab=try'],
    ['trading', '/tools/-/get_portfolio?tab=try'],
  ];
}

// Leaves one changed definition pending.
async function approveAllButOne() {
  const { pending } = await api(settings.operator, 'GET', '/servers/fleet/pending');
  const tools = pending.filter(({ kind }) => kind !== 'changed').map(({ tool, hash }) => ({ tool, hash }));
  if (tools.length > 0) await api(settings.operator, 'POST', '/servers/fleet/approve', { tools });
}

// Opens positions in the paper account.
async function openPositions() {
  const order = (symbol, side, notionalUsd, reasoning) =>
    api(settings.operator, 'POST', '/calls', { gate: 'treasury', tool: 'propose_order', args: { symbol, action: 'open', side, notionalUsd, reasoning } });
  await order('BTC', 'buy', '1200', 'The last bars close above their average, and funding is low.');
  await order('ETH', 'sell', '700', 'The last bars close below their average, and funding is high.');
}

// Fills in the form for the tool convert_units.
async function fill(page) {
  await page.getByLabel('value *', { exact: true }).fill('21.5');
  await page.getByLabel('from *', { exact: true }).selectOption('kn');
  await page.getByLabel('to *', { exact: true }).selectOption('km/h');
}

// Runs the tool, so that the screenshot has a result.
async function run(page) {
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByRole('region', { name: 'Result' }).getByText('OK', { exact: true }).first().waitFor();
}

async function take(screens, theme, size, suffix) {
  const { page, context } = await enter(settings.operator, '/', { theme, size: sizes[size] });
  for (const [name, path] of screens) {
    await go(page, path);
    if (name === 'tool') await fill(page);
    if (path.endsWith('?tab=try')) await run(page);
    await page.evaluate(() => scrollTo(0, 0));
    await page.mouse.move(0, 0);
    await sleep(name === 'calls' ? 5000 : 700); // waits until data is loaded and animations have ended
    await page.screenshot({ path: join(settings.folder, `${name}${suffix}-${theme}.png`), animations: 'disabled' });
  }
  await context.close();
}
