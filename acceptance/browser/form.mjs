// Fills in the form for a tool with a comprehensive schema: first with errors, then correctly, then
// as JSON. The tool returns its arguments.
import { isDeepStrictEqual } from 'node:util';
import { api, check, enter, eventually, figure, main, settings, settled, step, until } from './page.mjs';

await main(async () => {
  const { page, context, expect } = await enter(settings.operator, '/tools/-/plan_trip?tab=try&gate=all');
  const field = (name) => page.getByLabel(name, { exact: true });
  const group = (name) => page.getByRole('group', { name, exact: true });
  const result = page.getByRole('region', { name: 'Result' });
  const marked = async (name) => {
    check(`${name} is marked as invalid`, (await field(name).getAttribute('aria-invalid')) === 'true');
    const about = (await field(name).getAttribute('aria-describedby'))?.split(' ').at(-1);
    check(`${name} has an error message`, about && (await page.locator(`[id="${about}"]`).innerText()).length > 5, about);
  };
  const run = async () => {
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Run', exact: true }).click();
  };

  await step(page, 'errors are shown at their fields', async () => {
    await field('destination *').fill('X');
    check('the default is filled in', (await field('nights').inputValue()) === '3', await field('nights').inputValue());
    await field('nights').fill('99');
    await field('email *').fill('nobody'); // only the yard checks patterns
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByRole('alert').getByText(/invalid value/).waitFor();
    await marked('destination *');
    await marked('nights');
    await eventually('the first invalid field has the focus', () => field('destination *').evaluate((it) => it === document.activeElement));
    check('no call was made', (await result.getByText('Run the tool to see its result').count()) === 1);
  });

  await step(page, 'errors reported by the yard are shown at their fields', async () => {
    expect(/400 POST .*\/calls$/);
    await page.getByRole('button', { name: 'Send anyway' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Run', exact: true }).click();
    await result.getByText('validation error').first().waitFor();
    await marked('email *');
  });

  await step(page, 'the form produces the arguments', async () => {
    await field('destination *').fill('Lisbon');
    await field('class *').selectOption('business');
    await field('nights').fill('12');
    await group('contact').getByLabel('email *').fill('ann@example.com');
    const add = page.getByRole('button', { name: 'Add an item to travellers' });
    for (const [i, name] of ['Ann', 'Bob'].entries()) {
      await add.click();
      await group('travellers').getByLabel(`Item ${i + 1}`, { exact: true }).fill(name);
    }
    await page.getByLabel('Type of payment').selectOption({ label: 'Invoice' });
    await group('payment').getByLabel('company *').fill('Acme');
    const began = Date.now();
    await run();
    await result.getByText('OK', { exact: true }).first().waitFor();
    figure('form: run to result', `${Date.now() - began} ms`);
    await expectSent({ destination: 'Lisbon', class: 'business', nights: 12, contact: { email: 'ann@example.com' }, travellers: ['Ann', 'Bob'], payment: { company: 'Acme' } });
  });

  await step(page, 'the JSON editor has the same arguments', async () => {
    await page.getByRole('button', { name: 'JSON', exact: true }).click();
    const text = page.getByLabel('Arguments as JSON');
    const args = JSON.parse(await text.inputValue());
    check('the JSON matches the form', args.payment?.company === 'Acme' && args.nights === 12, args);
    await text.fill('{"destination":');
    check('invalid JSON cannot be run', await page.getByRole('button', { name: 'Run', exact: true }).isDisabled());
    await text.fill(JSON.stringify({ ...args, destination: 'Oslo', payment: { card: '4242' } }));
    await run();
    await page.waitForFunction(() => document.body.innerText.includes('Oslo'));
    await result.getByText('OK', { exact: true }).first().waitFor();
    await expectSent({ ...args, destination: 'Oslo', payment: { card: '4242' } });
    await page.getByRole('button', { name: 'Form', exact: true }).click();
    check('the form shows the edited JSON', (await field('destination *').inputValue()) === 'Oslo' && (await field('card *').inputValue()) === '4242');
  });

  await step(page, 'optional values are sent only if set', async () => {
    check('an optional oneOf starts as not set', (await page.getByLabel('Type of insurance').locator('option:checked').innerText()) === 'not set');
    await page.getByLabel('Type of insurance').selectOption({ label: 'Full' });
    await group('insurance').getByLabel('cover *').fill('9000');
    await page.getByLabel('Type of seat').selectOption({ label: 'null' });
    check('a date has its own input', (await field('departs').getAttribute('type')) === 'date');
    check('a password is not shown', (await field('pin').getAttribute('type')) === 'password');
    check('a file can be chosen', (await field('passport').getAttribute('type')) === 'file');
    await field('departs').fill('2026-12-24');
    await field('destination *').fill('Rome');
    await page.getByRole('tab', { name: 'Schema' }).click();
    await page.getByRole('tab', { name: 'Try it' }).click();
    check('arguments survive another tab', (await field('destination *').inputValue()) === 'Rome' && (await field('departs').inputValue()) === '2026-12-24');
    await run();
    await page.waitForFunction(() => document.body.innerText.includes('Rome'));
    let sent;
    await until('the call to Rome is recorded', async () => (sent = (await api(settings.viewer, 'GET', '/calls?tool=plan_trip&limit=1')).calls[0]?.args)?.destination === 'Rome');
    check('the form sends what it shows', isDeepStrictEqual([sent.insurance, sent.seat, sent.departs, 'pin' in sent], [{ cover: '9000' }, null, '2026-12-24', false]), sent);
  });

  await step(page, 'Run is visible, and the call can be copied', async () => {
    await page.evaluate(() => scrollTo(0, 0));
    check('Run is visible', await page.getByRole('button', { name: 'Run', exact: true }).evaluate((it) => it.getBoundingClientRect().bottom <= innerHeight));
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.getByRole('button', { name: 'Copy as curl' }).click();
    const copied = () => page.evaluate(() => navigator.clipboard.readText());
    await eventually('the command has the call', async () => /curl .*\/api\/v1\/calls/.test(await copied()), copied);
  });

  await step(page, 'recent runs are listed', async () => {
    const runs = () => page.getByRole('region', { name: 'Recent runs' }).getByRole('listitem').count();
    await eventually('four runs are listed', async () => (await runs()) === 4, runs);
  });

  await step(page, 'the other tabs of the tool', async () => {
    await page.getByRole('tab', { name: 'Schema' }).click();
    await page.getByRole('tabpanel').getByText('travellers').first().waitFor();
    await page.getByRole('tab', { name: /^Visibility/ }).click();
    const who = page.getByRole('table', { name: 'Visibility' });
    await who.getByRole('row').filter({ hasText: 'chat' }).getByText('Hidden').waitFor();
    await who.getByRole('row').filter({ hasText: 'all' }).getByText('Offered', { exact: true }).waitFor();
    await page.getByRole('tab', { name: 'Calls' }).click();
    await page.getByRole('tabpanel').getByText('OK').first().waitFor();
  });

  await step(page, 'a failing tool', async () => {
    await page.goto('/console/tools/-/throw?tab=try&gate=all');
    await settled(page);
    await run();
    await result.getByText(/boom/).first().waitFor();
  });

  await step(page, 'results of every kind', () => results(page, result, run));
  await context.close();
});

// Checks the recorded arguments of the tool's last call.
async function expectSent(want) {
  let sent;
  await until(`a call to ${want.destination} is recorded`, async () => {
    sent = (await api(settings.viewer, 'GET', '/calls?tool=plan_trip&limit=1')).calls[0]?.args;
    return sent?.destination === want.destination;
  });
  check('the arguments that were sent', isDeepStrictEqual(sent, want), { sent, want });
}

// Checks structured results, safe Markdown and stack traces.
async function results(page, result, run) {
  const answer = async (body) => {
    await page.route('**/api/v1/calls', (route) => route.fulfill({ json: body }), { times: 1 });
    await run();
  };
  await answer({ result: { content: [{ type: 'text', text: '[]' }], structuredContent: { total: 2, ships: [{ name: 'Solveig', length: 120 }, { name: 'Anneke', length: 90 }] } } });
  const table = result.getByRole('region', { name: 'Structured content as a table' });
  await table.getByRole('cell', { name: 'Anneke' }).waitFor();
  const text = '# Report\n\nSee [the docs](https://example.com/a) and <b>no HTML</b>.\n\n![x](https://tracker.example/p.png)\n\n[bad](javascript:alert(1))';
  await answer({ result: { content: [{ type: 'text', text }] } });
  const link = result.getByRole('link', { name: 'the docs' });
  check('links have a restrictive rel attribute', (await link.getAttribute('rel')) === 'noopener noreferrer nofollow');
  await result.getByText('(example.com)').waitFor();
  await result.getByText('<b>no HTML</b>').waitFor();
  check('no image is loaded, and unsafe URLs are not links', (await result.locator('.Markdown img').count()) === 0 && (await result.locator('.Markdown a').count()) === 1);
  await answer({ stackTrace: 'at default (tools/fee.ts:3:9)', result: { isError: true, content: [{ type: 'text', text: 'Error: boom' }] } });
  await result.getByText('tools/fee.ts:3:9').waitFor();
}
