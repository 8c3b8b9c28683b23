// A server changes what it offers while its page is open. One definition is approved by its diff,
// another is rejected; somebody who may only look cannot decide.
import { api, check, enter, figure, listed, main, mcp, settings, settled, sleep, step, until } from './page.mjs';

// change has the server offer another definition, and waits until the yard has noticed.
async function change(action, tool) {
  const answer = await mcp('all', 'tools/call', { name: `mcp_up__${action}`, arguments: {} }, settings.operator);
  check(`the server does ${action}`, answer.result && !answer.result.isError, answer);
  await until(`${tool} waits`, async () => (await api(settings.viewer, 'GET', '/servers/up/pending')).pending?.some((each) => each.tool === tool));
}

const item = (page, tool) => page.getByRole('list', { name: 'Pending definitions' }).getByRole('listitem').filter({ has: page.getByText(tool, { exact: true }) });

await main(async () => {
  const { page, context } = await enter(settings.operator, '/servers/up?tab=pending');

  await step(page, 'nothing waits at first', async () => {
    await page.getByText('No pending approvals').waitFor();
    check('the old definition is listed', (await listed('chat')).get('mcp_up__plain')?.description === 'Does what plain does.');
  });

  await step(page, 'a change appears by itself', async () => {
    await change('mutate', 'plain');
    const began = Date.now();
    await item(page, 'plain').waitFor({ timeout: 20_000 });
    figure('change to approval page', `${Date.now() - began} ms`);
    check('what changed is withheld', !(await listed('chat')).has('mcp_up__plain'));
  });

  await step(page, 'a definition must be opened before it can be approved', async () => {
    await change('grow', 'grown');
    await item(page, 'grown').waitFor({ timeout: 20_000 });
    await page.getByRole('checkbox', { name: /^Select all/ }).click();
    await page.getByText('Review 1 more definition before you approve').waitFor();
    const all = page.getByRole('button', { name: /^Approve 2$/ });
    check('it cannot be approved unread', await all.isDisabled());
    await item(page, 'grown').getByRole('button', { name: /grown/ }).click();
    await page.getByText('Review 1 more definition before you approve').waitFor({ state: 'detached' });
    check('it can be approved once it was opened', await all.isEnabled());
    await page.getByRole('checkbox', { name: /selected/ }).click();
  });

  await step(page, 'who approved it, its gates and its callers are shown', async () => {
    const impact = item(page, 'plain').locator('.Impact');
    await impact.getByRole('link', { name: 'chat' }).waitFor();
    check('new definitions were never approved', (await item(page, 'grown').locator('.Impact').innerText()).includes('never'));
  });

  await step(page, 'the diff shows both', async () => {
    const fold = item(page, 'plain').getByRole('button', { name: /plain/ });
    if ((await fold.getAttribute('aria-expanded')) !== 'true') await fold.click();
    const diff = page.getByRole('table', { name: 'Description' });
    check('the old words are removed', (await diff.locator('del').allInnerTexts()).join(' ').includes('what plain does'), await diff.innerText());
    check('the new words are added', (await diff.locator('ins').allInnerTexts()).join(' ').includes('something else now'), await diff.innerText());
  });

  await step(page, 'an approval lets it through', async () => {
    await item(page, 'plain').getByRole('button', { name: 'Approve', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Approve' }).click();
    await page.getByText('Approved 1 definition of up.').waitFor();
    const took = await until('MCP clients list it', async () => (await listed('chat')).get('mcp_up__plain')?.description === 'Does something else now.');
    figure('approval to tools/list', `${took} ms`);
  });

  await step(page, 'what is rejected stays withheld', async () => {
    const fold = item(page, 'grown').getByRole('button', { name: /grown/ });
    if ((await fold.getAttribute('aria-expanded')) !== 'true') await fold.click();
    await page.getByText('Was not there before.').first().waitFor();
    await viewer();
    await item(page, 'grown').getByRole('button', { name: 'Reject', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Reject' }).click();
    await page.getByText('Rejected 1 definition of up.').waitFor();
    await sleep(300);
    check('what was rejected is withheld', !(await listed('chat')).has('mcp_up__grown'));
    await page.getByText(/Rejected\s*1/).first().waitFor();
    const { waiting, rejected } = await api(settings.viewer, 'GET', '/servers/up');
    check('the yard knows that one was rejected', waiting === 0 && rejected === 1, { waiting, rejected });
  });

  await step(page, 'the list of servers', async () => {
    await page.goto('/console/servers');
    await settled(page);
    await page.getByRole('row', { name: /gone/ }).getByText('Down').waitFor();
    await page.getByRole('button', { name: /^Down/ }).click();
    await page.waitForURL(/state=down/);
    check('only what is down is listed', (await page.getByRole('table', { name: 'Servers' }).getByRole('row').count()) === 2);
    await page.getByRole('row', { name: /gone/ }).getByRole('button').click(); // connects again, in vain
  });
  await context.close();
});

// viewer looks at what waits, and finds nothing to press.
async function viewer() {
  const { page, context } = await enter(settings.viewer, '/servers/up?tab=pending&tool=grown');
  await item(page, 'grown').waitFor();
  await page.getByText('Was not there before.').first().waitFor();
  check('a viewer has no buttons', (await page.getByRole('main').getByRole('button', { name: /^(Approve|Reject)/ }).count()) === 0);
  await context.close();
}
