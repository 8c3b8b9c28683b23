// Reads the totals on the spend page, which the test compares with the ledger, and funds an
// account.
import { api, check, enter, main, settings, settled, step, value } from './page.mjs';

await main(async () => {
  const { page, context } = await enter(settings.operator, '/spend');
  const table = (name) => page.getByRole('table', { name });
  const cell = async (row, column) => (await row.getByRole('cell').nth(column).innerText()).trim();

  await step(page, 'the sums on the page', async () => {
    await settled(page);
    const spent = page.getByRole('main').locator('dl').filter({ hasText: 'Spent' }).first();
    value('total', (await spent.locator('dd').first().innerText()).trim());
    for (const tool of ['note_read', 'note_write']) value(tool, await cell(table('Costs by tool').getByRole('row').filter({ hasText: tool }), 2));
  });

  await step(page, 'accounts and sessions', async () => {
    await page.getByRole('tab', { name: 'Accounts' }).click();
    const row = table('Accounts').getByRole('row').filter({ hasText: 'globex' });
    await row.getByText('$1.000000001').first().waitFor();
    await page.getByRole('button', { name: 'Fund globex' }).click();
    await page.getByLabel(/^Amount in US dollars/).fill('0.1');
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Fund', exact: true }).click();
    await row.getByText('$1.100000001').first().waitFor();
    const { accounts } = await api(settings.viewer, 'GET', '/accounts');
    check('the funded amount is exact', accounts.find((each) => each.id === 'globex')?.remainingUsd === '1.100000001', accounts);
    await page.getByRole('tab', { name: 'Sessions' }).click();
    await table('Sessions').getByRole('row').filter({ hasText: 'acme' }).getByText('Open').first().waitFor();
  });
  await context.close();
});
