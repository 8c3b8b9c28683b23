// People connect to a server that is called on behalf of each caller. Settings: ann and bob are API
// keys; link is a sign-in link made for ann; issuer is the authorization server of the server
// tracker.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { api, check, enter, go, main, open, settings, settled, sizes, step } from './page.mjs';

const require = createRequire(new URL('../clients/package.json', import.meta.url));
const axe = await readFile(require.resolve('axe-core/axe.min.js'), 'utf8');
const path = new URL(settings.link).pathname + new URL(settings.link).hash;

await main(async () => {
  const bob = await enter(settings.bob);
  bob.expect(/403 POST .*\/review/);
  await step(bob.page, 'a link of another person is refused', async () => {
    await bob.page.goto(path);
    await bob.page.getByRole('alert').getByText('This link was created for another caller.').waitFor();
    check('there is no way to continue', (await bob.page.getByRole('button', { name: 'Continue' }).count()) === 0);
    await look(bob.page, 'refused');
  });
  await bob.context.close();

  const ann = await open({ issuer: settings.issuer, size: sizes.phone });
  ann.expect(/401 GET .*\/me/);
  await step(ann.page, 'a person signs in first, and continues on the same page', async () => {
    await ann.page.goto(path);
    await ann.page.getByText('first sign in as the caller').waitFor();
    await ann.page.getByRole('textbox', { name: 'Key' }).fill(settings.ann);
    await ann.page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await ann.page.getByRole('heading', { name: 'Connect tracker', level: 1 }).waitFor();
    await ann.page.getByText(new URL(settings.issuer).host).waitFor();
    await look(ann.page, 'connect');
  });
  await step(ann.page, 'the person connects and returns', async () => {
    await ann.page.getByRole('button', { name: 'Continue' }).click();
    await ann.page.getByRole('status').getByText('Connected to tracker.').waitFor();
    check('the response is removed from the URL', ann.page.url() === `${settings.url}/console/connections`, ann.page.url());
    await row(ann.page).getByText('Connected', { exact: true }).waitFor();
    await look(ann.page, 'connections-phone');
    await ann.page.setViewportSize(sizes.wide);
    await row(ann.page).getByText('tools.read').waitFor();
    await look(ann.page, 'connections');
    await ann.page.reload();
    await settled(ann.page);
    check('a reload does not repeat the response', (await ann.page.getByRole('status').getByText('Connected to').count()) === 0);
  });
  await step(ann.page, 'the person connects again without a link', async () => {
    await ann.page.getByRole('link', { name: 'Reconnect tracker' }).click();
    await ann.page.getByRole('button', { name: 'Continue' }).click();
    await ann.page.getByRole('status').getByText('Connected to tracker.').waitFor();
  });
  const operator = await enter(settings.operator, '/servers/tracker?tab=people');
  await step(operator.page, 'an operator sees who is connected, without secrets', async () => {
    await operator.page.getByRole('table', { name: 'Callers connected to tracker' }).getByText('ann').waitFor();
    await look(operator.page, 'connected');
    await go(operator.page, '/connections');
    await row(operator.page).getByText('Not connected').waitFor();
  });
  await operator.context.close();
  await step(ann.page, 'the person disconnects', async () => {
    await ann.page.getByRole('button', { name: 'Disconnect tracker' }).click();
    await ann.page.getByRole('dialog').getByRole('button', { name: 'Disconnect' }).click();
    await row(ann.page).getByText('Not connected').waitFor();
    const { connections } = await api(settings.ann, 'GET', '/connections');
    check('the connection is deleted', connections[0].state === 'none', connections);
  });
  await ann.context.close();
});

function row(page) {
  return page.getByRole('table', { name: 'Connections' }).getByRole('row').filter({ hasText: 'tracker' });
}

// Checks that a page is accessible and fits the window, and takes a screenshot.
async function look(page, name) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  for (const { id, impact, help, nodes } of violations) {
    const grave = impact === 'serious' || impact === 'critical';
    check(`${name}: ${id}, ${help}`, !grave, nodes.slice(0, 3).map((node) => `${node.target} ${node.failureSummary}`.slice(0, 300)));
  }
  const { wide, room } = await page.evaluate(() => ({ wide: document.documentElement.scrollWidth, room: document.documentElement.clientWidth }));
  check(`${name} fits the window`, wide <= room, { wide, room });
  await page.screenshot({ path: join(settings.artifacts, `${name}.png`) });
}
