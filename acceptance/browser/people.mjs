// People sign in with an OpenID provider on another site. The setting issuer is its URL.
import { check, main, open, settings, settled, step, until } from './page.mjs';

await main(async () => {
  const ann = await visit();
  await step(ann.page, 'a person signs in and returns to the page', async () => {
    await ann.page.goto('/console/spend?tab=sessions');
    await signInAs(ann.page, 'ann');
    await ann.page.getByRole('heading', { name: 'Spend', level: 1 }).waitFor();
    await ann.page.getByRole('banner').getByText('Ann Example').waitFor();
    check('the response is removed from the URL', ann.page.url() === `${settings.url}/console/spend?tab=sessions`, ann.page.url());
    check('only pages of the own account are offered', !(await ann.page.getByRole('link', { name: 'People' }).isVisible()));
  });
  await step(ann.page, 'the sign-in is bound to the browser', async () => {
    const cookies = await ann.context.cookies(`${settings.url}/api/v1`);
    const [cookie] = cookies;
    check('one strict cookie that scripts cannot read', cookies.length === 1 && cookie.name === 'toolyard' && cookie.httpOnly && cookie.sameSite === 'Strict', cookies);
    const stored = await ann.page.evaluate(() => Object.keys(localStorage).filter((name) => name.startsWith('toolyard.')).toSorted().join());
    check('only the page secret is stored', stored === 'toolyard.page', stored);
  });

  const mallory = await visit();
  mallory.expect(/403 POST .*\/signin\/response/);
  await step(mallory.page, 'a person who matches no rule is refused', async () => {
    await mallory.page.goto('/console/');
    await signInAs(mallory.page, 'mallory');
    await mallory.page.getByRole('alert').getByText(/no access rule matches your account mallory.*"guests"/).waitFor();
    await mallory.page.getByRole('heading', { name: /^Sign in/ }).waitFor();
  });
  mallory.expect(/401 POST .*\/signin\/response/);
  await step(mallory.page, 'a link with the response of another browser does not sign in', async () => {
    await mallory.page.goto('/console/signin/corp?code=stolen&state=stolen&iss=' + encodeURIComponent(settings.issuer));
    await mallory.page.getByRole('alert').getByText('Start again').waitFor();
    check('the response is removed from the URL', mallory.page.url() === `${settings.url}/console/`, mallory.page.url());
  });
  await mallory.context.close();

  const olivia = await visit();
  await step(olivia.page, 'an operator blocks a person', async () => {
    await olivia.page.goto('/console/people');
    await signInAs(olivia.page, 'olivia');
    await olivia.page.getByRole('heading', { name: 'People', level: 1 }).waitFor();
    await until('ann is listed', async () => {
      if (await olivia.page.getByRole('row').filter({ hasText: 'Ann Example' }).isVisible()) return true;
      await olivia.page.reload();
      await settled(olivia.page);
    });
    await settled(olivia.page);
    await olivia.page.getByLabel('Filter by name').fill('ANN@example');
    await olivia.page.getByRole('row').filter({ hasText: 'Olivia' }).waitFor({ state: 'detached' });
    await olivia.page.getByRole('button', { name: 'Block Ann Example' }).click();
    await olivia.page.getByRole('dialog').getByLabel('Reason').fill('left the company');
    await olivia.page.getByRole('dialog').getByRole('button', { name: 'Block' }).click();
    await olivia.page.getByRole('row').filter({ hasText: 'Ann Example' }).getByText('Blocked').waitFor();
    const issuers = olivia.page.getByRole('table', { name: 'Issuers' });
    const claims = olivia.page.getByLabel('Claims', { exact: true });
    await claims.fill(JSON.stringify({ iss: settings.issuer, sub: 'ann', aud: 'nothing', groups: ['guests'], exp: Math.floor(Date.now() / 1000) + 300 }));
    await olivia.page.getByRole('button', { name: 'Check claims' }).click();
    await olivia.page.getByText(/RULE: no access rule matches/).waitFor();
    await claims.fill('eyJhbGciOiJSUzI1NiJ9.e30.c2ln');
    await olivia.page.getByRole('button', { name: 'Check claims' }).click();
    await olivia.page.getByText(/This is a token/).waitFor();
    check('the state of the issuer is shown', await issuers.getByText(/1 key/).isVisible(), await issuers.innerText());
  });
  ann.expect(/401 (GET|POST) /);
  await step(ann.page, 'the blocked person is signed out', async () => {
    await until('the sign-in ends', async () => {
      await ann.page.reload();
      await ann.page.getByRole('heading', { level: 1 }).first().waitFor();
      return ann.page.getByRole('heading', { name: /^Sign in/ }).isVisible();
    });
    ann.expect(/403 POST .*\/signin\/response/);
    await ann.page.getByRole('button', { name: 'Sign in with corp' }).click(); // the provider remembers ann
    await ann.page.getByRole('alert').getByText('Your account is blocked').waitFor();
  });
  await step(olivia.page, 'an operator signs out', async () => {
    await olivia.page.getByRole('button', { name: 'Sign out' }).click();
    await olivia.page.getByRole('button', { name: 'Sign in with corp' }).waitFor();
  });
});

async function visit() {
  const opened = await open({ issuer: settings.issuer });
  opened.expect(/401 GET .*\/me/); // not signed in
  return opened;
}

async function signInAs(page, person) {
  await page.getByRole('button', { name: 'Sign in with corp' }).click();
  await page.getByRole('link', { name: person }).click();
  await page.waitForURL(`${settings.url}/console/**`);
}
