// The pages Queries and Approvals, on a phone and a desktop: an answered query with
// its evidence, a running one that is updated, and a call that an operator approves.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { api, check, enter, figure, go, main, painted, settings, step } from './page.mjs';

const require = createRequire(new URL('../clients/package.json', import.meta.url));
const axe = await readFile(require.resolve('axe-core/axe.min.js'), 'utf8');
const sizes = [{ width: 1280, height: 900 }, { width: 390, height: 844 }];
const patience = { timeout: 60_000 };

await main(async () => {
  const answered = await api(settings.caller, 'POST', '/query', { query: 'count to three' });
  const { page, context } = await enter(settings.operator, '/queries', { theme: 'light', size: sizes[0] });
  await page.evaluate(axe);

  await step(page, 'an answered query has its evidence', async () => {
    await page.getByRole('link', { name: /count to three/ }).first().click();
    await page.getByText('It is 3').waitFor(patience);
    const rows = page.getByRole('list', { name: 'Turns and calls' }).getByRole('listitem');
    check('two turns and a call', (await rows.count()) === 3, await rows.allInnerTexts());
    const evidence = page.getByRole('list', { name: 'Evidence' }).getByRole('listitem');
    check('one cited result', (await evidence.count()) === 1 && (await evidence.innerText()).includes('cited'), await evidence.allInnerTexts());
    await page.getByRole('link', { name: 'Evidence e1' }).first().click();
    check('a mark leads to its evidence', page.url().endsWith(`/queries/${answered.query}#e1`), page.url());
    await look(page, `/queries/${answered.query}`);
  });

  await step(page, 'a running query is updated', async () => {
    const leave = new AbortController();
    const asked = fetch(`${settings.url}/api/v1/query`, {
      method: 'POST', signal: leave.signal, headers: { Authorization: `Bearer ${settings.caller}`, 'Content-Type': 'application/json' }, body: JSON.stringify({ query: 'hang' }),
    }).catch(() => undefined);
    await go(page, '/queries?outcome=running');
    await page.getByRole('link', { name: /hang/ }).click(patience);
    const title = page.locator('.Page-title');
    await title.getByText('Running').waitFor(patience);
    leave.abort();
    await asked;
    await title.getByText('Failed').waitFor(patience);
  });

  await step(page, 'lists fit, and are accessible', async () => {
    for (const path of ['/queries', '/queries?outcome=failed', '/approvals']) await look(page, path);
  });

  await step(page, 'an operator approves a call', async () => {
    const ship = () => api(settings.caller, 'POST', '/calls', { gate: 'desk', tool: 'ship_order', args: { id: 7, items: Array.from({ length: 30 }, (_, i) => `item ${i}`) } });
    const refused = await ship();
    check('the call needs approval', refused.status === 403, refused);
    await go(page, '/approvals');
    await page.getByRole('button', { name: 'Approve ship_order' }).waitFor(patience);
    await look(page, '/approvals?view=all');
    await go(page, '/approvals');
    for (const name of ['Approve ship_order', 'Decline ship_order']) { // on a phone, the arguments are longer than the screen
      const button = page.getByRole('button', { name });
      await button.waitFor(patience);
      await painted(page);
      const seen = await button.evaluate((element) => {
        const { left, top, width, height } = element.getBoundingClientRect();
        const at = document.elementFromPoint(left + width / 2, top + height / 2);
        return { scrolled: scrollY, bottom: top + height, height: innerHeight, hit: element.contains(at), page: document.documentElement.scrollHeight };
      });
      check(`${name}: visible without scrolling`, seen.scrolled === 0 && seen.page > seen.height && seen.bottom <= seen.height && seen.hit, seen);
    }
    await page.getByRole('button', { name: 'Approve ship_order' }).click(patience);
    await page.getByText('No calls are waiting for approval').waitFor(patience);
    const shipped = await ship();
    check('the approved call runs', shipped.status === 200 && JSON.stringify(shipped.result).includes('shipped 7'), shipped);
    const again = await ship();
    check('an approval is used once', again.status === 403, again);
  });
  await context.close();

  const dark = await enter(settings.operator, '/queries', { theme: 'dark', size: sizes[1] });
  await dark.page.evaluate(axe);
  await step(dark.page, 'in the dark', async () => {
    for (const path of ['/queries', `/queries/${answered.query}`, '/approvals?view=all']) await look(dark.page, path, [sizes[1]]);
  });
  await dark.context.close();
  figure('queries and approvals', 'seen');
});

// Checks a screen at several widths.
async function look(page, path, widths = sizes) {
  await go(page, path);
  for (const size of widths) {
    await page.setViewportSize(size);
    await painted(page);
    const where = `${path} (${size.width} px)`;
    const { wide, room } = await page.evaluate(() => ({ wide: document.documentElement.scrollWidth, room: document.documentElement.clientWidth }));
    check(`${where}: no horizontal scrolling`, wide <= room, { wide, room });
    const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
    check(`${where}: accessible`, violations.length === 0, violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.target} ${node.failureSummary}`.slice(0, 300))}`));
  }
}
