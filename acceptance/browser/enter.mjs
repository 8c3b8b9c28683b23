// Signs in with good and bad keys, looks at the overview, and signs out again.
import { api, check, enter, figure, main, open, settings, settled, signIn, step } from './page.mjs';

await main(async () => {
  const { page, expect } = await open();
  expect(/401 GET .*\/me/); // nobody is signed in

  await step(page, 'a key is asked for', async () => {
    await page.goto('/console/');
    await page.getByRole('heading', { name: /^Sign in/ }).waitFor();
    expect(/401 POST .*\/signin/);
    await page.getByLabel('Key', { exact: true }).fill('ty_aaaaaaaaaa_' + 'b'.repeat(49));
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('alert').getByText('Invalid key').waitFor();
  });

  await step(page, 'a pasted key opens', async () => {
    await signIn(page, settings.operator);
    await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
    check('who is signed in is shown', await page.getByRole('banner').getByText('olivia').isVisible());
    const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]));
    check('scripts can read the key', !kept.includes(settings.operator.slice(3, 20)), kept);
  });

  await step(page, 'the overview says what the API says', async () => {
    await settled(page);
    const { tools, servers, problems, waiting } = await api(settings.viewer, 'GET', '/overview');
    const stat = (label) => page.getByRole('main').getByRole('link').filter({ hasText: label }).first();
    check('the number of tools', (await stat(/^Tools/).innerText()).includes(tools.toLocaleString('en-US')), await stat(/^Tools/).innerText());
    check('the servers', (await stat(/^Servers up/).innerText()).includes(`${servers.up} of ${servers.up + servers.down + servers.starting}`));
    await page.getByRole('main').getByRole('link', { name: new RegExp(`${servers.down} servers? down`) }).waitFor();
    check('the fixture has a problem and nothing that waits', problems > 0 && waiting === 0, { problems, waiting });
    await page.getByRole('main').getByRole('link', { name: new RegExp(`${problems - waiting} problem`) }).waitFor();
    await page.getByRole('img', { name: /Calls per minute/ }).waitFor();
  });

  await step(page, 'signing out', async () => {
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: /^Sign in/ }).waitFor();
    await page.goto('/console/keys');
    await page.getByRole('heading', { name: /^Sign in/ }).waitFor();
  });

  await step(page, 'a key that may only call opens what is its own', async () => {
    await signIn(page, settings.caller);
    await page.getByRole('heading', { name: 'Not allowed', level: 1 }).waitFor(); // the address is that of the keys
    await page.getByRole('link', { name: 'Go to your calls' }).click();
    await page.getByRole('heading', { name: 'Calls', level: 1 }).waitFor();
  });
  await page.context().close();

  await load();
});

// load measures a load with an empty cache.
async function load() {
  const { page, context } = await enter(settings.viewer, '/servers');
  await step(page, 'signing in stays on the page that was asked for', async () => {
    await page.getByRole('heading', { name: 'Servers', level: 1 }).waitFor();
  });
  await step(page, 'the first load is small', async () => {
    const cold = await context.newPage(); // signed in, with nothing in its cache
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
