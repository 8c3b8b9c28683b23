// The documentation site: six kinds of pages in both themes and on a phone, the menu, the theme
// button and the search. Any request to another host is reported as a fault.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { check, main, open, settings, sizes, step } from './page.mjs';

const require = createRequire(new URL('../clients/package.json', import.meta.url));
const axe = await readFile(require.resolve('axe-core/axe.min.js'), 'utf8');

// The kinds are the start page, a tutorial, a how-to guide, a generated reference, an explanation,
// and a client's quick start.
const kinds = { start: '', tutorial: 'guide/', guide: 'deploy/', reference: 'reference/cli/', explanation: 'architecture/', client: 'clients/cursor/' };

await main(async () => {
  const phone = await open({ size: sizes.phone });
  for (const theme of ['light', 'dark']) {
    const { page, context } = await open({ theme });
    for (const [kind, path] of Object.entries(kinds)) {
      await step(page, `${kind} page, ${theme}`, () => look(page, path, `${kind}-${theme}`));
    }
    await context.close();
  }
  for (const [kind, path] of Object.entries(kinds)) {
    await step(phone.page, `${kind} page on a phone`, () => visit(phone.page, path, `${kind}-phone`));
  }
  const { page } = await open();
  await step(page, 'search', () => search(page));
  await step(page, 'theme', () => changeTheme(page));
  await step(phone.page, 'menu on a phone', () => useMenu(phone.page));
});

async function visit(page, path, name) {
  await page.goto(settings.site + path);
  await page.locator('#search:not([hidden])').waitFor();
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  check(`${name} scrolls horizontally`, wide <= 0, wide);
  if (settings.pictures) await page.screenshot({ path: join(settings.pictures, `${name}.png`) });
}

async function look(page, path, name) {
  await visit(page, path, name);
  await judge(page, name);
}

async function judge(page, name) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  check(`${name} violates accessibility rules`, violations.length === 0, violations.map((v) => [v.id, v.nodes[0].html.slice(0, 200)]));
}

async function search(page) {
  await page.goto(settings.site);
  await page.locator('#search:not([hidden])').waitFor();
  await page.keyboard.press('/');
  await page.getByRole('searchbox').fill('idempotency key');
  await page.locator('#results a', { hasText: /idempotency key/i }).first().waitFor();
  if (settings.pictures) await page.screenshot({ path: join(settings.pictures, 'search.png') });
  await judge(page, 'the search');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.waitForURL((url) => url.pathname !== new URL(settings.site).pathname);
  await page.getByRole('heading', { level: 1 }).waitFor();
}

async function changeTheme(page) {
  await page.goto(settings.site);
  const button = page.getByRole('button', { name: 'Theme: auto' });
  await button.click();
  await page.getByRole('button', { name: 'Theme: light' }).click();
  await page.reload();
  await page.getByRole('button', { name: 'Theme: dark' }).waitFor();
  const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  check('the dark theme survives a reload', background === 'rgb(15, 18, 20)', background);
}

async function useMenu(page) {
  await page.goto(`${settings.site}guide/`);
  await page.locator('#search:not([hidden])').waitFor();
  const link = page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Deployment' });
  check('the menu is closed', !(await link.isVisible()));
  await page.getByText('Menu', { exact: true }).click();
  await link.click();
  await page.getByRole('heading', { level: 1, name: 'Deployment' }).waitFor();
}
