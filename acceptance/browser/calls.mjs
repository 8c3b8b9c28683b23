// Calls appear live, can be filtered and paused, and a single call shows its timeline, arguments
// and result. Other scripts make calls at the same time, and only visible rows are in the DOM.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { api, check, enter, figure, main, mcp, quantile, settings, sleep, step, until } from './page.mjs';

const fresh = ['archive', 'compare', 'count', 'describe', 'export', 'fetch', 'find', 'forecast', 'list', 'rank'].map((action) => `${action}_driver_template`);

// Calls a tool repeatedly until the page shows it.
const repeat = (name, shown) => until(`${name} is shown`, async () => {
  await call(name, { id: 'again' });
  await sleep(1000);
  return shown.isVisible();
});

await main(async () => {
  const { page, context } = await enter(settings.operator, '/calls');
  const table = page.getByRole('table', { name: 'Calls' });
  const rows = (text) => table.getByRole('row').filter({ hasText: text });

  await step(page, 'recorded calls are listed', async () => {
    const { calls } = await api(settings.viewer, 'GET', '/calls?limit=5');
    await table.locator(`a[href$="/calls/${calls.at(-1).id}"]`).waitFor();
    await page.getByRole('group', { name: 'Live' }).getByText('Live', { exact: true }).waitFor();
  });

  await step(page, 'calls appear live', async () => {
    await page.evaluate(watchRows, fresh);
    const sent = {};
    for (const name of fresh) {
      sent[name] = Date.now();
      await call(name, { id: name });
      await sleep(150);
    }
    await page.waitForFunction((names) => names.every((name) => window.rowTimes[name] !== undefined), fresh);
    const seen = await page.evaluate(() => window.rowTimes);
    const delays = fresh.map((name) => (seen[name] ?? Infinity) - sent[name]);
    figure('live: call to row', `p50 ${quantile(delays, 0.5)} ms, max ${Math.max(...delays)} ms of ${delays.length}`);
    check('calls appear within a second', quantile(delays, 0.5) < 1000 && Math.max(...delays) < 30_000, delays);
  });

  await step(page, 'a running call is shown', async () => {
    const enough = join(settings.artifacts, 'enough');
    const running = call('sleep', { ms: 25_000, until: enough });
    await rows('sleep').filter({ hasText: 'Running' }).waitFor();
    await writeFile(enough, '');
    await running;
    await rows('sleep').filter({ hasText: 'OK' }).first().waitFor();
  });

  await step(page, 'a paused list does not change', async () => {
    await page.getByLabel('Tool', { exact: true }).fill('merge_driver_template');
    await page.getByLabel('Tool', { exact: true }).press('Enter');
    await page.waitForURL(/tool=merge_driver_template/);
    await page.getByRole('group', { name: 'Live' }).getByText('Live', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    const show = page.getByRole('button', { name: /Show \d+ new call/ });
    await repeat('merge_driver_template', show); // the stream with the new filter may not be open yet
    check('nothing is added while paused', (await rows('merge_driver_template').count()) === 0);
    await show.click();
    await rows('merge_driver_template').first().waitFor();
    await page.getByRole('button', { name: /^Clear/ }).click();
    await page.waitForURL((url) => !url.search.includes('tool='));
    await repeat('cancel_driver_template', rows('cancel_driver_template').first());
  });

  await step(page, 'filters', async () => {
    await page.getByRole('switch', { name: 'Failed only' }).click();
    await page.waitForURL(/failed=true/);
    await rows('throw').first().waitFor();
    await until('successful calls are filtered out', async () => (await rows('note_write').count()) === 0);
    await page.getByLabel('Tool', { exact: true }).fill('echo');
    await page.getByLabel('Tool', { exact: true }).press('Enter');
    await page.waitForURL(/tool=echo/);
    await rows('throw').first().waitFor({ state: 'detached' });
    await rows('echo').first().waitFor();
    await call('echo', { text: 5 });
    check('other calls are filtered out', (await rows('hello').count()) === 0);
    await page.getByRole('button', { name: /^Clear/ }).click();
    await page.waitForURL((url) => !/tool=|failed=/.test(url.search));
    await repeat('assign_driver_template', rows('assign_driver_template').first());
  });

  await step(page, 'one call', async () => {
    await call('hello', { name: 'Grace' });
    let id;
    await until('the call is recorded', async () => {
      const { calls } = await api(settings.viewer, 'GET', '/calls?tool=hello&limit=20');
      id = calls.find((each) => each.args?.name === 'Grace')?.id;
      return id;
    });
    await page.getByLabel('Tool', { exact: true }).fill('hello');
    await page.getByLabel('Tool', { exact: true }).press('Enter');
    await page.waitForURL(/tool=hello/);
    await table.locator(`a[href$="/calls/${id}"]`).click();
    await page.getByRole('heading', { name: 'hello', level: 1 }).waitFor();
    const steps = await page.getByRole('list', { name: 'Call steps' }).getByRole('listitem').allInnerTexts();
    for (const name of ['Validate', 'Admit', 'Run', 'Settle']) check(`the step ${name} is shown`, steps.some((text) => text.startsWith(name)), steps);
    await page.getByRole('region', { name: 'Arguments' }).getByText('Grace').waitFor();
    await page.getByRole('region', { name: 'Result' }).getByText('Hello, Grace!').first().waitFor();
  });

  await step(page, 'a failed call', async () => {
    const { calls } = await api(settings.viewer, 'GET', '/calls?tool=throw&limit=1');
    await page.goto(`/console/calls/${calls[0].id}`);
    await page.getByRole('region', { name: 'Error' }).getByText('boom').waitFor();
  });
  await context.close();
});

// Makes a call as an agent would.
async function call(name, args) {
  return mcp('all', 'tools/call', { name, arguments: args }, settings.operator);
}

// Runs in the page: records when each tool's row appears.
function watchRows(names) {
  const times = (window.rowTimes = {});
  const look = () => {
    const text = document.querySelector('table[aria-label=Calls]')?.textContent ?? '';
    for (const name of names) if (times[name] === undefined && text.includes(name)) times[name] = Date.now();
  };
  new MutationObserver(look).observe(document.querySelector('main'), { subtree: true, childList: true });
}
