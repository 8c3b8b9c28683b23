// Fills in the form of a tool that has everything a schema can ask for: first wrongly, then
// rightly, then as JSON. The tool returns what it was sent.
import { isDeepStrictEqual } from 'node:util';
import { api, check, enter, figure, main, settings, settled, step, until } from './page.mjs';

await main(async () => {
  const { page, context, expect } = await enter(settings.operator, '/tools/-/plan_trip?tab=try&gate=all');
  const field = (name) => page.getByLabel(name, { exact: true });
  const group = (name) => page.getByRole('group', { name, exact: true });
  const result = page.getByRole('region', { name: 'Result' });
  const marked = async (name) => {
    check(`${name} is marked`, (await field(name).getAttribute('aria-invalid')) === 'true');
    const about = (await field(name).getAttribute('aria-describedby'))?.split(' ').at(-1);
    check(`${name} says what is wrong`, about && (await page.locator(`[id="${about}"]`).innerText()).length > 5, about);
  };
  const run = async () => {
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Run it' }).click();
  };

  await step(page, 'what is wrong is said at its field', async () => {
    await field('destination *').fill('X');
    check('a default is there', (await field('nights').inputValue()) === '3', await field('nights').inputValue());
    await field('nights').fill('99');
    await field('email *').fill('nobody'); // only the yard knows what fits a pattern
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByRole('alert').getByText(/not as the schema asks/).waitFor();
    await marked('destination *');
    await marked('nights');
    check('nothing was called', (await result.getByText('Nothing was run yet').count()) === 1);
  });

  await step(page, 'what the yard refuses is said at its field too', async () => {
    expect(/400 POST .*\/calls$/);
    await page.getByRole('button', { name: 'Send anyway' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Run it' }).click();
    await result.getByText('validation error').first().waitFor();
    await marked('email *');
  });

  await step(page, 'the form makes the arguments', async () => {
    await field('destination *').fill('Lisbon');
    await field('class *').selectOption('business');
    await field('nights').fill('12');
    await group('contact').getByLabel('email *').fill('ann@example.com');
    const add = page.getByRole('button', { name: 'Add an item to travellers' });
    for (const [i, name] of ['Ann', 'Bob'].entries()) {
      await add.click();
      await group('travellers').getByLabel(`Item ${i + 1}`, { exact: true }).fill(name);
    }
    await page.getByLabel('Kind of payment').selectOption({ label: 'Invoice' });
    await group('payment').getByLabel('company *').fill('Acme');
    const began = Date.now();
    await run();
    await result.getByText('OK', { exact: true }).first().waitFor();
    figure('form: run to result', `${Date.now() - began} ms`);
    await expectSent({ destination: 'Lisbon', class: 'business', nights: 12, contact: { email: 'ann@example.com' }, travellers: ['Ann', 'Bob'], payment: { company: 'Acme' } });
  });

  await step(page, 'JSON says the same, and can be written', async () => {
    await page.getByRole('button', { name: 'JSON', exact: true }).click();
    const text = page.getByLabel('Arguments as JSON');
    const args = JSON.parse(await text.inputValue());
    check('the JSON is what the form says', args.payment?.company === 'Acme' && args.nights === 12, args);
    await text.fill('{"destination":');
    check('what is no JSON cannot be run', await page.getByRole('button', { name: 'Run', exact: true }).isDisabled());
    await text.fill(JSON.stringify({ ...args, destination: 'Oslo', payment: { card: '4242' } }));
    await run();
    await page.waitForFunction(() => document.body.innerText.includes('Oslo'));
    await result.getByText('OK', { exact: true }).first().waitFor();
    await expectSent({ ...args, destination: 'Oslo', payment: { card: '4242' } });
    await page.getByRole('button', { name: 'Form', exact: true }).click();
    check('the form takes it over', (await field('destination *').inputValue()) === 'Oslo' && (await field('card *').inputValue()) === '4242');
  });

  await step(page, 'what was tried is kept', async () => {
    await page.getByRole('region', { name: 'Tried in this tab' }).getByRole('button').last().waitFor();
    check('three calls were tried', (await page.getByRole('region', { name: 'Tried in this tab' }).getByRole('listitem').count()) === 3);
  });

  await step(page, 'the other parts of the tool', async () => {
    await page.getByRole('tab', { name: 'Schema' }).click();
    await page.getByRole('tabpanel').getByText('travellers').first().waitFor();
    await page.getByRole('tab', { name: /^Who sees it/ }).click();
    const who = page.getByRole('table', { name: 'Who sees it' });
    await who.getByRole('row').filter({ hasText: 'chat' }).getByText('Not shown').waitFor();
    await who.getByRole('row').filter({ hasText: 'all' }).getByText('Shown', { exact: true }).waitFor();
    await page.getByRole('tab', { name: 'Calls' }).click();
    await page.getByRole('tabpanel').getByText('OK').first().waitFor();
  });

  await step(page, 'a tool that fails', async () => {
    await page.goto('/console/tools/-/throw?tab=try&gate=all');
    await settled(page);
    await run();
    await result.getByText(/boom/).first().waitFor();
  });
  await context.close();
});

// expectSent checks what the last call of the tool was sent, once it is on the record.
async function expectSent(want) {
  let sent;
  await until(`a call to ${want.destination} is on the record`, async () => {
    sent = (await api(settings.viewer, 'GET', '/calls?tool=plan_trip&limit=1')).calls[0]?.args;
    return sent?.destination === want.destination;
  });
  check('the arguments that were sent', isDeepStrictEqual(sent, want), { sent, want });
}
