// Limits in use, a key's life cycle, problems with their locations, and the audit log.
import { check, enter, eventually, figure, main, mcp, settings, settled, step, until } from './page.mjs';

await main(async () => {
  const { page, context } = await enter(settings.operator, '/limits');

  await step(page, 'limits show their usage', async () => {
    for (let i = 0; i < 3; i++) await mcp('all', 'tools/call', { name: 'note_paced', arguments: {} }, settings.operator);
    const row = page.getByRole('table', { name: 'Limits' }).getByRole('row').filter({ hasText: 'note_paced' });
    await row.getByText('3 of 3').waitFor();
    const refused = await mcp('all', 'tools/call', { name: 'note_paced', arguments: {} }, settings.operator);
    check('the fourth call is refused', refused.result?._meta?.['dev.toolyard/error']?.error === 'RATE_LIMITED', refused);
  });

  let token;
  const use = () => mcp('all', 'tools/call', { name: 'echo', arguments: { text: 'hi' } }, token);
  let revoked;
  await step(page, 'a key is created, used and revoked', async () => {
    await page.goto('/console/keys');
    await settled(page);
    await page.getByRole('button', { name: 'Create key' }).click();
    await page.getByLabel(/^Name/).fill('short-lived');
    await page.getByLabel(/^Caller/).fill('robot');
    await page.getByRole('switch', { name: /^Allow writes/ }).click(); // makes it a write gate
    await page.getByRole('dialog').getByRole('button', { name: 'Create key' }).click();
    token = await page.getByRole('dialog').getByText(/^ty_[a-z0-9]+_/).innerText();
    await page.getByRole('button', { name: 'I have copied it' }).click();
    check('the key works', (await use()).result?.content?.[0]?.text === 'hi');
    await eventually('the token is gone from the page', async () => !(await page.content()).includes(token));
    await page.getByRole('button', { name: 'Revoke short-lived' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke key' }).click();
    await page.getByText('Revoked key short-lived.').waitFor();
    revoked = Date.now();
    await page.getByRole('row').filter({ hasText: 'short-lived' }).getByText('Revoked').waitFor();
  });

  await step(page, 'keys are filtered by state', async () => {
    const request = page.waitForRequest((each) => /\/api\/v1\/keys\?.*state=revoked/.test(each.url()));
    await page.getByRole('combobox', { name: 'State' }).click();
    await page.getByRole('option', { name: 'Revoked' }).click();
    await request;
    const rows = page.getByRole('table', { name: 'Keys' }).getByRole('row').filter({ has: page.getByRole('cell') });
    await until('only revoked keys are listed', async () => (await rows.filter({ hasText: 'Active' }).count()) === 0);
    await eventually('the revoked key is listed', async () => (await rows.filter({ hasText: 'short-lived' }).count()) === 1, () => rows.allInnerTexts());
  });

  await step(page, 'problems have locations', async () => {
    await page.goto('/console/problems');
    await settled(page);
    const problem = page.getByRole('article').filter({ hasText: 'broken' });
    await problem.getByText(/broken\.ts:3/).first().waitFor();
    await problem.getByText('z.string(').first().waitFor();
  });

  await step(page, 'changes name their author', async () => {
    await page.goto('/console/changes');
    await settled(page);
    const table = page.getByRole('table', { name: 'Changes' });
    for (const action of ['Revoke a key', 'Create a key', 'Fund an account', 'Edit a toolset', 'Restore an earlier version', 'Approve definitions', 'Reject definitions']) {
      const row = table.getByRole('row').filter({ hasText: action }).first();
      await row.waitFor();
      check(`${action}: has an author`, (await row.innerText()).includes('olivia'), await row.innerText());
    }
    await table.getByRole('row').filter({ hasText: 'Fund an account' }).filter({ hasText: 'globex' }).first().getByRole('button', { name: 'Details' }).click();
    await page.getByRole('dialog').getByText('globex').first().waitFor();
    await page.getByRole('button', { name: 'Close' }).first().click();
  });
  await step(page, 'a revoked key is refused', async () => {
    await until('the key is refused', async () => (await use()).status === 401, 90_000);
    figure('key: revoked to refused', `${Date.now() - revoked} ms at most`);
  });
  await context.close();

  const looking = await enter(settings.viewer, '/keys');
  await step(looking.page, 'a viewer has no buttons', async () => {
    check('a viewer cannot create or revoke keys', (await looking.page.getByRole('button', { name: /Create key|Revoke/ }).count()) === 0);
  });
  await looking.context.close();
});
