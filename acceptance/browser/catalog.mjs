// Finds and runs a tool by keyboard, filters the catalog, and uses the global search and Back.
import { api, check, enter, eventually, main, settings, settled, step } from './page.mjs';

await main(async () => {
  const { page, context } = await enter(settings.operator);
  await step(page, 'keyboard only', () => keyboard(page));
  await step(page, 'filters', () => filters(page));
  await step(page, 'the global search finds servers and calls', () => globalSearch(page));
  await step(page, 'Back restores tabs and filters', () => back(page));
  await context.close();
});

// Goes from the overview to a result without a mouse.
async function keyboard(page) {
  await page.goto('/console/');
  await settled(page);
  const focused = () => page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.textContent);
  for (let i = 0; i < 40 && (await focused()) !== 'Search'; i++) await page.keyboard.press('Tab');
  check('Tab reaches the search', (await focused()) === 'Search', await focused());
  await page.keyboard.type('list_ledger_not'); // the full name would open the tool
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Catalog', level: 1 }).waitFor();
  await page.getByRole('link', { name: 'list_ledger_notes' }).waitFor();
  await settled(page);
  await page.keyboard.press('/');
  await eventually('the slash focuses the catalog search', async () => (await focused()) === 'Search the catalog', focused);
  await page.keyboard.press('ArrowDown');
  await eventually('the arrow key moves into the list', async () => (await focused())?.includes('list_ledger_notes'), focused);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'list_ledger_notes', level: 1 }).waitFor();
  await settled(page);
  await run(page);
}

// Fills in and submits a tool's form by keyboard.
async function run(page) {
  const tab = async (holds, limit = 80) => {
    for (let i = 0; i < limit; i++) {
      await page.keyboard.press('Tab');
      if (await page.evaluate(holds)) return;
    }
    throw new Error(`Tab does not reach ${holds}`);
  };
  const label = (text) => page.getByRole('tab', { name: text });
  if (await label(/^Try/).count()) {
    await tab(() => document.activeElement?.getAttribute('role') === 'tab');
    for (let i = 0; i < 8 && (await label(/^Try/).getAttribute('aria-selected')) !== 'true'; i++) {
      await page.keyboard.press('ArrowRight');
      await page.keyboard.press('Enter');
      await page.waitForFunction(() => document.activeElement?.getAttribute('aria-selected') === 'true');
    }
  }
  await page.getByLabel(/^id/).first().waitFor();
  await tab(() => [...(document.activeElement?.labels ?? [])].some((each) => each.textContent.startsWith('id')));
  await page.keyboard.type('by keys alone');
  await tab(() => /^(Run|Call)/.test(document.activeElement?.textContent ?? '') && document.activeElement.tagName === 'BUTTON');
  await page.keyboard.press('Enter');
  await page.getByText('by keys alone').last().waitFor();
  await page.getByText('OK', { exact: true }).first().waitFor();
}

// Filters apply to the list and are stored in the URL.
async function filters(page) {
  await page.goto('/console/catalog');
  await settled(page);
  const count = async () => Number((await page.getByRole('main').getByRole('status').first().innerText()).replaceAll(/\D/g, ''));
  await page.getByRole('group', { name: 'Mode' }).getByRole('button', { name: /^Write/ }).click();
  await page.waitForURL(/mode=write/);
  await page.getByRole('group', { name: 'Source' }).getByRole('button', { name: /^up/ }).click();
  await page.waitForURL(/source=up/);
  const { total } = await api(settings.viewer, 'GET', '/tools?mode=write&source=up');
  await page.waitForFunction((n) => [...document.querySelectorAll('main [role=status]')].some((each) => each.textContent.startsWith(`${n} tool`)), total);
  await page.reload();
  await settled(page);
  await eventually('the URL keeps the filters', async () => (await count()) === total, async () => ({ shown: await count(), total }));
  await page.getByRole('button', { name: 'Clear all' }).click();
  await page.waitForFunction(() => /10,\d\d\d tools/.test(document.querySelector('main [role=status]')?.textContent ?? ''));
}

// Finds a server and a call by ID.
async function globalSearch(page) {
  const box = page.getByRole('combobox', { name: 'Search', exact: true });
  await box.fill('gon');
  await page.getByRole('option', { name: /gone/ }).click();
  await page.getByRole('heading', { name: 'gone', level: 1 }).waitFor();
  const { calls } = await api(settings.viewer, 'GET', '/calls?tool=hello&limit=1');
  await box.fill(calls[0].id);
  await box.press('Enter');
  await page.getByRole('heading', { name: 'hello', level: 1 }).waitFor();
}

// Goes back through the choices made on one screen.
async function back(page) {
  await page.goto('/console/tools/-/plan_trip?tab=try');
  await settled(page);
  await page.getByRole('tab', { name: 'Schema' }).click();
  await page.getByRole('tab', { name: 'Calls' }).click();
  await page.goBack();
  await page.waitForURL(/tab=schema/);
  await page.goto('/console/catalog');
  await settled(page);
  await page.getByRole('group', { name: 'Mode' }).getByRole('button', { name: /^Write/ }).click();
  await page.waitForURL(/mode=write/);
  await page.goBack();
  await page.waitForURL((url) => !url.search.includes('mode'));
}
