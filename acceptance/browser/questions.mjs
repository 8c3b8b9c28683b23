// Answers tools' questions: all kinds of forms, with and without errors, in several rounds,
// declined and canceled; URLs; and expired questions. Questions must be accessible.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { isDeepStrictEqual } from 'node:util';
import { api, check, enter, eventually, figure, main, settings, settled, sizes, step } from './page.mjs';

const require = createRequire(new URL('../clients/package.json', import.meta.url));
const axe = await readFile(require.resolve('axe-core/axe.min.js'), 'utf8');

await main(async () => {
  const opened = await enter(settings.operator, '/');
  await forms(opened);
  await ways(opened);
  await ends(opened);
  await opened.context.close();
  for (const theme of ['light', 'dark']) await looks(theme);
});

// Opens a tool's form and returns locators for its parts.
async function at(page, tool, source = '-') {
  await page.goto(`/console/tools/${source}/${tool}?tab=try&gate=all`);
  await settled(page);
  const result = page.getByRole('region', { name: 'Result' });
  const question = result.getByRole('form');
  return {
    result,
    question,
    field: (name) => question.getByLabel(name, { exact: true }),
    press: (name) => question.getByRole('button', { name, exact: true }).click(),
    run: async () => {
      await page.getByRole('button', { name: 'Run', exact: true }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Run', exact: true }).click();
    },
    says: (text) => result.getByText(text).first().waitFor(),
  };
}

// Performs an action and returns the call request that it sends.
async function sentBy(page, act) {
  const [request] = await Promise.all([page.waitForRequest((each) => each.method() === 'POST' && each.url().endsWith('/calls')), act()]);
  return request.postDataJSON();
}

async function forms({ page }) {
  await step(page, 'a question names its tool', async () => {
    const { question, result, field, press, run, says } = await at(page, 'test_elicitation');
    await page.getByLabel('message *', { exact: true }).fill('Who?');
    const began = Date.now();
    await run();
    await question.getByText('Who?', { exact: true }).waitFor();
    figure('question: run to question', `${Date.now() - began} ms`);
    check('the heading names the tool', (await question.getByRole('heading').innerText()) === 'test_elicitation needs input', await question.getByRole('heading').innerText());
    await eventually('the question is announced', async () => (await result.getByRole('status').filter({ hasText: 'test_elicitation is asking a question' }).count()) === 1);
    await eventually('the question has the focus', () => question.evaluate((form) => form === document.activeElement));
    check('the arguments are locked', await page.getByLabel('message *', { exact: true }).isDisabled());
    check('the gate is locked', await page.getByRole('combobox', { name: 'Via gate' }).isDisabled());
    check('the tool cannot be run meanwhile', await page.getByRole('button', { name: 'Run', exact: true }).isDisabled());
    await field('username *').fill('ann');
    await press('Answer');
    await question.getByRole('alert').getByText('1 invalid value').waitFor();
    check('a missing value is marked', (await field('email *').getAttribute('aria-invalid')) === 'true');
    await field('email *').fill('ann@example.com');
    const sent = await sentBy(page, () => field('email *').press('Enter'));
    check('the answer repeats the call', sent.tool === 'test_elicitation' && sent.args.message === 'Who?' && sent.state.length > 20, sent);
    await says(/"username":"ann"/);
    await eventually('the arguments are unlocked', () => page.getByLabel('message *', { exact: true }).isEnabled());
    const kept = await page.evaluate(() => JSON.stringify({ ...sessionStorage, ...localStorage }));
    check('the state is not stored', !kept.includes(sent.state) && kept.includes('Who?'));
    const runs = () => page.getByRole('region', { name: 'Recent runs' }).getByRole('listitem').count();
    await eventually('the run is listed once', async () => (await runs()) === 1, runs);
  });

  await step(page, 'all kinds of enums', async () => {
    const { question, field, press, run, says } = await at(page, 'test_elicitation_sep1330_enums');
    await run();
    await field('untitledSingle').selectOption('option2');
    await field('titledSingle').selectOption({ label: 'Second Option' });
    await field('legacyEnum').selectOption({ label: 'Option Three' });
    await question.getByRole('group', { name: 'untitledMulti' }).getByRole('checkbox', { name: 'option1' }).click();
    for (const name of ['First Choice', 'Third Choice']) await question.getByRole('checkbox', { name }).click();
    const { answers } = await sentBy(page, () => press('Answer'));
    const content = { untitledSingle: 'option2', titledSingle: 'value2', legacyEnum: 'opt3', untitledMulti: ['option1'], titledMulti: ['value1', 'value3'] };
    check('the selected values are sent', isDeepStrictEqual(answers, { choices: { action: 'accept', content } }), answers);
    await says(/state-ok/);
  });

  await step(page, 'defaults are filled in', async () => {
    const { field, press, run, says } = await at(page, 'test_elicitation_sep1034_defaults');
    await run();
    check('the defaults are shown', (await field('name').inputValue()) === 'John Doe' && (await field('score').inputValue()) === '95.5');
    await field('age').fill('31');
    await field('name').fill('');
    await field('verified').selectOption({ label: 'No' });
    const { answers } = await sentBy(page, () => press('Answer'));
    check('the changed values are sent', isDeepStrictEqual(answers.defaults?.content, { age: 31, score: 95.5, status: 'active', verified: false }), answers);
    await says(/state-ok/);
  });
}

async function ways({ page, context }) {
  await step(page, 'several rounds', async () => {
    const { question, field, press, run, says } = await at(page, 'test_input_required_result_multi_round');
    await run();
    await question.getByText('Step 1: What is your name?').waitFor();
    await field('name *').fill('Ann');
    await press('Answer');
    await question.getByText('Step 2: What is your favorite color?').waitFor();
    check('the heading mentions the earlier question', /needs more input/.test(await question.getByRole('heading').innerText()));
    await eventually('the second question has the focus', () => question.evaluate((form) => form === document.activeElement));
    await field('color *').fill('teal');
    await press('Answer');
    await says('both answered');
  });

  await step(page, 'a question of a server is declined and canceled', async () => {
    const { question, press, run, says } = await at(page, 'ask', 'up');
    await run();
    await question.getByText('Tool from server up.').waitFor();
    await press('Decline');
    await says('decline');
    await run();
    await question.waitFor();
    await page.keyboard.press('Escape');
    await says('cancel');
  });

  await step(page, 'a URL opens only on a click, and several questions are answered', async () => {
    const address = `${settings.url}/readyz?from=tool`;
    const { question, press, run, says } = await at(page, 'test_elicitation');
    await page.getByLabel('message *', { exact: true }).fill('Who?');
    const questions = {
      a: { message: 'Sign in first', url: address },
      b: { message: 'And who?', schema: { type: 'object', properties: { who: { type: 'string', title: 'Your name' } }, required: ['who'] } },
    };
    let release;
    const changed = new Promise((resolve) => { release = resolve; });
    await page.route('**/api/v1/calls', async (route) => {
      await changed;
      await route.fulfill({ json: { inputRequired: { questions, state: 'sealed' } } });
    }, { times: 1 });
    await run();
    await page.getByLabel('message *', { exact: true }).fill('Changed meanwhile');
    release();
    await question.getByText(address, { exact: true }).waitFor();
    check('the arguments are those of the call', (await page.getByLabel('message *', { exact: true }).inputValue()) === 'Who?');
    check('nothing was opened', context.pages().length === 1);
    const link = question.getByRole('link');
    check('the link has a restrictive rel attribute', (await link.getAttribute('rel')) === 'noopener noreferrer' && (await link.getAttribute('target')) === '_blank');
    const [tab] = await Promise.all([context.waitForEvent('page'), link.click()]);
    check('the page is opened without an opener and referrer', (await tab.waitForURL(address).then(() => true, () => false)) && (await tab.evaluate(() => window.opener === null && document.referrer === '')), tab.url());
    await tab.close();
    await question.getByRole('button', { name: 'Decline this one' }).last().click();
    await page.route('**/api/v1/calls', (route) => route.fulfill({ json: { inputRequired: { questions: {}, state: 'alone' } } }), { times: 1 });
    const { answers } = await sentBy(page, () => press('Answer'));
    check('each question has its answer', isDeepStrictEqual(answers, { a: { action: 'accept' }, b: { action: 'decline' } }), answers);
    await question.getByText('The tool is waiting to continue').waitFor();
    await page.route('**/api/v1/calls', (route) => route.fulfill({ json: { result: { content: [{ type: 'text', text: 'went on' }] } } }), { times: 1 });
    const alone = await sentBy(page, () => press('Continue'));
    check('only the state is sent', alone.state === 'alone' && !('answers' in alone), alone);
    await says('went on');
  });
}

async function ends({ page, expect }) {
  await step(page, 'a schema that is not formable is answered as JSON', async () => {
    const { field, press, run, says } = await at(page, 'test_input_required_result_multi_round');
    const schema = { type: 'object', properties: { constructor: { type: 'string' } }, required: ['constructor'] };
    await page.route('**/api/v1/calls', (route) => route.fulfill({ json: { inputRequired: { questions: { q: { message: 'Who built it?', schema } }, state: 'sealed' } } }), { times: 1 });
    await run();
    await field('Answer as JSON').fill('{"constructor":');
    await press('Answer');
    check('invalid JSON is kept', (await field('Answer as JSON').inputValue()) === '{"constructor":');
    await field('Answer as JSON').fill('{"constructor": "Ann"}');
    await page.route('**/api/v1/calls', (route) => route.fulfill({ json: { result: { content: [{ type: 'text', text: 'by Ann' }] } } }), { times: 1 });
    const { answers } = await sentBy(page, () => press('Answer'));
    check('the JSON is sent', isDeepStrictEqual(answers, { q: { action: 'accept', content: { constructor: 'Ann' } } }), answers);
    await says('by Ann');
  });

  await step(page, 'an expired question is reported, and the call can be run again', async () => {
    const { question, result, field, press, run, says } = await at(page, 'test_input_required_result_multi_round');
    const response = page.waitForResponse((each) => each.url().endsWith('/calls') && each.request().method() === 'POST');
    await run();
    const { inputRequired } = await (await response).json();
    await question.waitFor();
    const used = await api(settings.operator, 'POST', '/calls', { tool: 'test_input_required_result_multi_round', gate: 'all', args: {}, state: inputRequired.state, answers: { step1: { action: 'cancel' } } });
    check('the state is accepted once', used.status === 200, used);
    expect(/400 POST .*\/calls$/);
    await field('name *').fill('Ann');
    await press('Answer');
    await says(/The question has expired/);
    check('no argument is marked as invalid', (await page.getByText(/invalid value/).count()) === 0);
    await result.getByRole('button', { name: 'Run again' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Run', exact: true }).click();
    await question.getByText('Step 1: What is your name?').waitFor();
    check('the form is empty', (await field('name *').inputValue()) === '');
  });

  await step(page, 'a long message does not hide the origin', async () => {
    const { question, run } = await at(page, 'test_input_required_result_multi_round');
    const message = `Toolyard: your session has ended.${'\n'.repeat(2000)}\u202e<b>Your key?</b>`;
    await page.route('**/api/v1/calls', (route) => route.fulfill({ json: { inputRequired: { questions: { q: { message, schema: { type: 'object', properties: {} } } }, state: 'sealed' } } }), { times: 1 });
    await run();
    const shown = await question.locator('blockquote').innerText();
    check('the message is plain text with escapes', shown.endsWith('⟨U+202E⟩<b>Your key?</b>'), shown.slice(-60));
    for (const part of [question.getByRole('heading'), question.getByRole('button', { name: 'Answer' })]) {
      await eventually('the origin and the buttons are visible', () => part.evaluate((it) => it.getBoundingClientRect().top > 0 && it.getBoundingClientRect().bottom < innerHeight));
    }
  });

  await step(page, 'requests that only programs can answer are refused', async () => {
    const { run, says } = await at(page, 'test_input_required_result_list_roots');
    await run();
    await says('missing capability');
  });
}

// Checks the layout and accessibility of questions at all widths.
async function looks(theme) {
  for (const [size, box] of Object.entries(sizes)) {
    const { page, context } = await enter(settings.operator, '/', { theme, size: box });
    await step(page, `a question, ${theme} ${size}`, async () => {
      const { question, run } = await at(page, 'test_elicitation_sep1330_enums');
      await run();
      await question.getByLabel('legacyEnum').waitFor();
      const boxes = () => page.evaluate(() => ({ wide: document.documentElement.scrollWidth, room: document.documentElement.clientWidth }));
      await eventually('a question fits the window', async () => { const { wide, room } = await boxes(); return wide <= room; }, boxes);
      await eventually('the heading is visible', () => question.getByRole('heading').evaluate((it) => it.getBoundingClientRect().top > 0 && it.getBoundingClientRect().bottom < innerHeight));
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
      const grave = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
      check(`a question, ${theme} ${size}`, grave.length === 0, grave.map(({ id, nodes }) => `${id} ${nodes[0].target}`));
    });
    await context.close();
  }
}
