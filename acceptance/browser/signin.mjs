// Tries to take over a sign-in: with the cookie, which browsers send to every port of a host, and
// with links that would sign a user in as another caller.
import { createServer } from 'node:http';
import { check, enter, eventually, main, open, settings, settled, step } from './page.mjs';

await main(async () => {
  const thief = await startThief();
  try {
    await theft(thief);
    await links(thief);
  } finally {
    thief.server.close();
  }
});

/** A program on another port of the host: it records cookies, and serves a page that redirects to a link. */
async function startThief() {
  const thief = { cookie: '', leadsTo: '' };
  thief.server = createServer((request, answer) => {
    thief.cookie = request.headers.cookie ?? thief.cookie;
    answer.setHeader('Content-Type', 'text/html');
    const leave = thief.leadsTo ? `<script>location.href = ${JSON.stringify(thief.leadsTo)}</script>` : '';
    answer.end(request.url.startsWith('/api/v1') ? 'ok' : `<img src="/api/v1/pixel">${leave}`);
  });
  await new Promise((resolve) => thief.server.listen(0, '127.0.0.1', resolve));
  thief.url = `http://127.0.0.1:${thief.server.address().port}/`;
  return thief;
}

async function theft(thief) {
  const { page, context } = await enter(settings.operator, '/calls');
  await step(page, 'a stolen cookie does not grant access', async () => {
    const elsewhere = await context.newPage();
    await elsewhere.goto(thief.url, { waitUntil: 'networkidle' });
    check('the browser sends the cookie to the other port', thief.cookie.startsWith('toolyard='), thief.cookie);
    const attempts = [['GET', '/me'], ['GET', '/keys'], ['GET', '/calls/live'], ['POST', '/keys', { name: 'backdoor', caller: 'mallory', scopes: ['operator'] }]];
    for (const [method, path, body] of attempts) {
      for (const secret of [undefined, 'guessed']) await replay(thief.cookie, secret, method, path, body);
    }
    await elsewhere.close();
  });
  await step(page, 'tabs share the sign-in and the sign-out', async () => {
    const second = await context.newPage();
    await second.goto('/console/keys');
    await second.getByRole('heading', { name: 'Keys', level: 1 }).waitFor();
    check('nothing was created', !(await second.getByText('backdoor').isVisible()));
    await second.getByRole('button', { name: 'Sign out' }).click();
    await second.getByRole('heading', { name: /^Sign in/ }).waitFor();
    const kept = () => page.evaluate(() => JSON.stringify({ ...localStorage }));
    await eventually('the page secret is deleted', async () => !(await kept()).includes('toolyard.page'), kept);
  });
  await context.close();
}

/** Sends a request as the other program could: with any header, but without the page secret. */
async function replay(cookie, secret, method, path, body) {
  const answer = await fetch(`${settings.url}/api/v1${path}`, {
    method,
    headers: { Cookie: cookie, 'Sec-Fetch-Site': 'same-origin', 'Content-Type': 'application/json', ...(secret && { 'Toolyard-Page-Secret': secret }) },
    ...(body && { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(60_000),
  });
  const text = await answer.text().catch(() => '');
  const unauthenticated = answer.status === 401 || (path === '/me' && JSON.parse(text).role === 'anonymous');
  check(`${method} ${path} with the stolen cookie`, unauthenticated, { status: answer.status, text });
}

async function links(thief) {
  const { page, context, expect } = await enter(settings.operator, '/calls');
  const who = () => page.getByRole('banner').getByText('olivia');
  await step(page, 'a link with an API key does not sign in', async () => {
    thief.leadsTo = `${settings.url}/console/calls#key=${settings.caller}`;
    await page.goto(`/console/calls#key=${settings.caller}`);
    await page.reload();
    await settled(page);
    await who().waitFor();
    check('the key is removed from the URL', !page.url().includes('key='), page.url());
    const elsewhere = await context.newPage();
    await elsewhere.goto(thief.url);
    await elsewhere.getByRole('heading', { name: 'Calls', level: 1 }).waitFor();
    await elsewhere.getByRole('banner').getByText('olivia').waitFor();
    await elsewhere.close();
  });
  await step(page, 'a link of another yard does not sign out', async () => {
    expect(/401 POST .*\/signin/);
    await page.goto('about:blank');
    await page.goto('/console/calls#key=tyl_OFANOTHERYARD');
    await settled(page);
    await who().waitFor();
  });
  await step(page, 'a link of this yard signs in its operator', async () => {
    await page.goto('about:blank');
    await page.goto(`/console/calls#key=${settings.link}`);
    await settled(page);
    await page.getByRole('banner').getByText('local').waitFor();
    check('the token is removed from the URL', !page.url().includes('key='), page.url());
  });
  await context.close();

  const stranger = await open();
  await step(stranger.page, 'a rejected link is explained on the sign-in page', async () => {
    await stranger.page.goto(`/console/#key=${settings.caller}`);
    await stranger.page.getByRole('alert').getByText('Sign-in links with an API key are not accepted').waitFor();
    check('the key is removed from the URL', !stranger.page.url().includes('key='), stranger.page.url());
  });
  await stranger.context.close();
}
