// A caller that lacks the viewer scope sees only its own account, and the console sends no request
// that the API would refuse.
import { api, check, enter, go, main, mcp, settings, settled, step } from './page.mjs';

await main(async () => {
  const { page, context } = await enter(settings.caller);
  const table = (name) => page.getByRole('table', { name });
  const heading = (name) => page.getByRole('heading', { name, level: 1 });

  await step(page, 'the console starts with the calls', async () => {
    await page.waitForURL(/\/console\/calls$/);
    await heading('Calls').waitFor();
    const links = await page.getByRole('navigation', { name: 'Main', exact: true }).getByRole('link').allInnerTexts();
    check('the navigation has only accessible pages', links.join() === 'harbor,Calls,Queries,Spend,Links,Connections', links);
    await page.getByRole('banner').getByText('acme').waitFor();
    check('there is no global search', (await page.getByRole('search').count()) === 0);
  });

  await step(page, 'calls of the account appear live', async () => {
    await page.getByRole('group', { name: 'Live' }).getByText('Live', { exact: true }).waitFor();
    const { result } = await mcp('all', 'tools/call', { name: 'hello', arguments: { name: 'Own' } }, settings.operator);
    await table('Calls').locator(`a[href$="/calls/${result._meta['dev.toolyard/call']}"]`).waitFor();
  });

  await step(page, 'filters by name', async () => {
    await page.getByLabel('Tool', { exact: true }).fill('throw');
    await page.getByLabel('Tool', { exact: true }).press('Enter');
    await page.waitForURL(/tool=throw/);
    await table('Calls').getByRole('row').filter({ hasText: 'hello' }).first().waitFor({ state: 'detached' });
    check('there is no account filter', (await page.getByLabel('Account', { exact: true }).count()) === 0);
  });

  await step(page, 'one call', async () => {
    await table('Calls').getByRole('row').filter({ hasText: 'throw' }).first().getByRole('link').first().click();
    await heading('throw').waitFor();
    await page.getByRole('region', { name: 'Error' }).getByText('boom').waitFor();
    const addresses = await page.getByRole('main').getByRole('link').evaluateAll((links) => links.map((link) => link.getAttribute('href')));
    check('all links lead to accessible pages', addresses.every((to) => /^\/console\/(calls|spend)\b/.test(to)), addresses);
  });

  await spending(page, table);
  await links(page, table);

  await step(page, 'other pages explain the required scope', async () => {
    for (const path of ['/servers', '/tools/-/hello?tab=try', '/keys', '/toolsets/desk', '/catalog?q=hello']) {
      await go(page, path);
      await heading('Not allowed').waitFor();
      await page.getByRole('main').getByText('viewer', { exact: true }).waitFor();
    }
    await page.getByRole('link', { name: 'Go to your calls' }).click();
    await heading('Calls').waitFor();
  });

  await step(page, 'an account in the URL is ignored', async () => {
    for (const path of ['/calls?account=globex', '/spend?account=globex', '/spend?tab=sessions&account=globex']) await go(page, path);
    await page.reload();
    await settled(page);
  });
  await context.close();
});

// Compares the sums with the API, and closes a session.
async function spending(page, table) {
  await step(page, 'the spend of the account', async () => {
    await go(page, '/spend');
    const { costs } = await api(settings.caller, 'GET', '/costs?by=tool');
    const { usd } = costs.find((row) => row.tool === 'note_read');
    const row = table('Costs by tool').getByRole('row').filter({ hasText: 'note_read' });
    check('the sum of a tool', (await row.innerText()).includes(`$${usd}`), { usd, shown: await row.innerText() });
    check('other accounts are not listed', (await table('Costs by account').count()) === 0);
    await page.getByRole('tab', { name: 'Your account' }).click();
    await page.getByRole('heading', { name: 'acme' }).waitFor();
  });

  await step(page, 'a session is closed', async () => {
    const { id } = await api(settings.caller, 'POST', '/sessions', { limitUsd: '0.01', ttl: '10m' });
    await page.getByRole('tab', { name: 'Sessions' }).click();
    await page.getByRole('button', { name: `Close ${id}` }).click();
    await page.getByRole('button', { name: 'Close session' }).click();
    await table('Sessions').getByRole('row').filter({ hasText: id }).getByText('Closed').waitFor();
    check('the session is closed', (await api(settings.caller, 'GET', `/sessions/${id}`)).status === 'closed');
  });
}

// Links a wallet and removes it.
async function links(page, table) {
  const address = `0x${'a1'.repeat(20)}`;
  await step(page, 'an account is linked and removed', async () => {
    await page.getByRole('link', { name: 'Links' }).first().click();
    await page.getByText('No linked accounts').waitFor();
    await page.getByRole('button', { name: 'Link an account' }).click();
    await page.getByLabel(/^Kind/).fill('wallet');
    await page.getByLabel(/^Address/).fill(address);
    await page.getByRole('button', { name: 'Link', exact: true }).click();
    await table('Links').getByText(address).waitFor();
    check('the wallet is linked', (await api(settings.caller, 'GET', '/links')).links.wallet === address);
    await page.getByRole('button', { name: 'Remove wallet' }).click();
    await page.getByRole('button', { name: 'Remove link' }).click();
    await page.getByText('No linked accounts').waitFor();
  });
}
