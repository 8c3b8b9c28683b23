// A server changes its definitions while its page is open. One definition is approved after its
// diff is reviewed, and another is rejected; a viewer can do neither.
import { api, check, enter, eventually, figure, listed, main, mcp, settings, settled, sleep, step, until } from './page.mjs';

// Makes the server change a definition, and waits until it is pending.
async function change(action, tool) {
  const answer = await mcp('all', 'tools/call', { name: `mcp_up__${action}`, arguments: {} }, settings.operator);
  check(`the server does ${action}`, answer.result && !answer.result.isError, answer);
  await until(`${tool} is pending`, async () => (await api(settings.viewer, 'GET', '/servers/up/pending')).pending?.some((each) => each.tool === tool));
}

const item = (page, tool) => page.getByRole('list', { name: 'Pending definitions' }).getByRole('listitem').filter({ has: page.getByText(tool, { exact: true }) });

await main(async () => {
  const { page, context } = await enter(settings.operator, '/servers/up?tab=pending');

  await step(page, 'nothing is pending at first', async () => {
    await page.getByText('No pending approvals').waitFor();
    check('the old definition is listed', (await listed('chat')).get('mcp_up__plain')?.description === 'Does what plain does.');
  });

  await step(page, 'a change appears without a reload', async () => {
    await change('mutate', 'plain');
    const began = Date.now();
    await item(page, 'plain').waitFor({ timeout: 60_000 });
    figure('change to approval page', `${Date.now() - began} ms`);
    await eventually('the changed definition is withheld', async () => !(await listed('chat')).has('mcp_up__plain'));
  });

  await step(page, 'a definition must be opened before it can be approved', async () => {
    await change('grow', 'grown');
    await item(page, 'grown').waitFor({ timeout: 60_000 });
    await page.getByRole('checkbox', { name: /^Select all/ }).click();
    await page.getByText('Review 1 more definition before you approve').waitFor();
    const all = page.getByRole('button', { name: /^Approve 2$/ });
    check('an unopened definition cannot be approved', await all.isDisabled());
    await item(page, 'grown').getByRole('button', { name: /grown/ }).click();
    await page.getByText('Review 1 more definition before you approve').waitFor({ state: 'detached' });
    check('an opened definition can be approved', await all.isEnabled());
    await page.getByRole('checkbox', { name: /selected/ }).click();
  });

  await step(page, 'the last approval, the gates and the callers are shown', async () => {
    const impact = item(page, 'plain').locator('.Impact');
    await impact.getByRole('link', { name: 'chat' }).waitFor();
    const grown = () => item(page, 'grown').locator('.Impact').innerText();
    await eventually('a new definition was never approved', async () => (await grown()).includes('never'), grown);
  });

  await step(page, 'the diff shows both versions', async () => {
    const fold = item(page, 'plain').getByRole('button', { name: /plain/ });
    if ((await fold.getAttribute('aria-expanded')) !== 'true') await fold.click();
    const diff = page.getByRole('table', { name: 'Description' });
    await diff.locator('ins').first().waitFor();
    check('old words are marked as removed', (await diff.locator('del').allInnerTexts()).join(' ').includes('what plain does'), await diff.innerText());
    check('new words are marked as added', (await diff.locator('ins').allInnerTexts()).join(' ').includes('something else now'), await diff.innerText());
  });

  await step(page, 'an approved definition is offered', async () => {
    await item(page, 'plain').getByRole('button', { name: 'Approve', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Approve' }).click();
    await page.getByText('Approved 1 definition of up.').waitFor();
    const took = await until('MCP clients list it', async () => (await listed('chat')).get('mcp_up__plain')?.description === 'Does something else now.');
    figure('approval to tools/list', `${took} ms`);
  });

  await step(page, 'a rejected definition stays withheld', async () => {
    const fold = item(page, 'grown').getByRole('button', { name: /grown/ });
    if ((await fold.getAttribute('aria-expanded')) !== 'true') await fold.click();
    await page.getByText('Was not there before.').first().waitFor();
    await viewer();
    await item(page, 'grown').getByRole('button', { name: 'Reject', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Reject' }).click();
    await page.getByText('Rejected 1 definition of up.').waitFor();
    await sleep(300);
    check('the rejected definition is withheld', !(await listed('chat')).has('mcp_up__grown'));
    await page.getByText(/Rejected\s*1/).first().waitFor();
    const { waiting, rejected } = await api(settings.viewer, 'GET', '/servers/up');
    check('the API reports one rejected definition', waiting === 0 && rejected === 1, { waiting, rejected });
  });

  await step(page, 'the list of servers', async () => {
    await page.goto('/console/servers');
    await settled(page);
    await page.getByRole('row', { name: /gone/ }).getByText('Down').waitFor();
    await page.getByRole('button', { name: /^Down/ }).click();
    await page.waitForURL(/state=down/);
    const rows = () => page.getByRole('table', { name: 'Servers' }).getByRole('row').count();
    await eventually('only servers that are down are listed', async () => (await rows()) === 2, rows);
    await page.getByRole('row', { name: /gone/ }).getByRole('button').click(); // reconnecting fails
  });
  await context.close();
});

// A viewer sees pending definitions but no buttons.
async function viewer() {
  const { page, context } = await enter(settings.viewer, '/servers/up?tab=pending&tool=grown');
  await item(page, 'grown').waitFor();
  await page.getByText('Was not there before.').first().waitFor();
  check('a viewer has no buttons', (await page.getByRole('main').getByRole('button', { name: /^(Approve|Reject)/ }).count()) === 0);
  await context.close();
}
