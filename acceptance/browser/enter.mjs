// Signs in with valid and invalid keys, checks the overview, and signs out.
import { api, check, enter, eventually, figure, main, open, settings, settled, signIn, step } from './page.mjs';

await main(async () => {
  const { page, expect } = await open();
  expect(/401 GET .*\/me/); // not signed in

  await step(page, 'sign-in asks for a key', async () => {
    await page.goto('/console/');
    await page.getByRole('heading', { name: /^Sign in/ }).waitFor();
    expect(/401 POST .*\/signin/);
    await page.getByLabel('Key', { exact: true }).fill('ty_aaaaaaaaaa_' + 'b'.repeat(49));
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('alert').getByText('Invalid key').waitFor();
  });

  await step(page, 'a valid key signs in', async () => {
    await signIn(page, settings.operator);
    await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
    await page.getByRole('banner').getByText('olivia').waitFor();
    const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]));
    check('the key is not readable by scripts', !kept.includes(settings.operator.slice(3, 20)), kept);
  });

  await step(page, 'the overview matches the API', async () => {
    await settled(page);
    const { tools, servers, problems, waiting } = await api(settings.viewer, 'GET', '/overview');
    const stat = (label) => page.getByRole('main').getByRole('link').filter({ hasText: label }).first();
    const shows = (label, text) => eventually(`${label}: ${text}`, async () => (await stat(label).innerText()).includes(text), () => stat(label).innerText());
    await shows(/^Tools/, tools.toLocaleString('en-US'));
    await shows(/^Servers up/, `${servers.up} of ${servers.up + servers.down + servers.starting}`);
    await page.getByRole('main').getByRole('link', { name: new RegExp(`${servers.down} servers? down`) }).waitFor();
    check('the fixture has problems and nothing pending', problems > 0 && waiting === 0, { problems, waiting });
    await page.getByRole('main').getByRole('link', { name: new RegExp(`${problems - waiting} problem`) }).waitFor();
    await page.getByRole('img', { name: /Calls per minute/ }).waitFor();
  });

  await step(page, 'signing out', async () => {
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: /^Sign in/ }).waitFor();
    await page.goto('/console/keys');
    await page.getByRole('heading', { name: /^Sign in/ }).waitFor();
  });

  await step(page, 'a key without scopes opens its own pages', async () => {
    await signIn(page, settings.caller);
    await page.getByRole('heading', { name: 'Not allowed', level: 1 }).waitFor(); // the URL still belongs to the page Keys
    await page.getByRole('link', { name: 'Go to your calls' }).click();
    await page.getByRole('heading', { name: 'Calls', level: 1 }).waitFor();
  });
  await page.context().close();

  await load();
});

// Measures loading with an empty cache.
async function load() {
  const { page, context } = await enter(settings.viewer, '/servers');
  await step(page, 'signing in keeps the requested page', async () => {
    await page.getByRole('heading', { name: 'Servers', level: 1 }).waitFor();
  });
  await step(page, 'the first load is small', async () => {
    const cold = await context.newPage(); // signed in, with an empty cache
    const network = await context.newCDPSession(cold);
    let bytes = 0;
    network.on('Network.loadingFinished', ({ encodedDataLength }) => (bytes += encodedDataLength));
    await network.send('Network.enable');
    await network.send('Network.setCacheDisabled', { cacheDisabled: true });
    await cold.goto('/console/');
    await settled(cold);
    await cold.getByRole('img', { name: /Calls per minute/ }).waitFor();
    await cold.waitForLoadState('networkidle');
    figure('first load, transferred', `${(bytes / 1024).toFixed(1)} KiB`);
    check('the first load is below 300 KiB', bytes < 300 * 1024, bytes);
  });
  await context.close();
}
