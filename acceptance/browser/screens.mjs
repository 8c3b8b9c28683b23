// Visits every screen in one size, and checks it in both themes for console errors, failed requests, policy
// violations, horizontal overflow and accessibility violations.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { api, check, enter, eventually, figure, go, main, open, settings, settled, sizes, step } from './page.mjs';

const { size } = settings;
const require = createRequire(new URL('../clients/package.json', import.meta.url));
const ofColor = ['color-contrast', 'link-in-text-block']; // the rules whose result depends on the theme
const axe = await readFile(require.resolve('axe-core/axe.min.js'), 'utf8');

await main(async () => {
  const [all, own] = [await addresses(), await ownAddresses()];
  await walk(settings.operator, all, 'operator');
  await walk(settings.caller, own, 'caller');
  await signInPage();
  figure(`screens, ${size}`, `${all.length + own.length + 1} checked in both themes`);
});

// Visits screens with a key.
async function walk(key, screens, who) {
  const { page, context, expect } = await enter(key, '/', { size: sizes[size] });
  expect(/404 GET .*\/tools\/-\/none/);
  await page.evaluate(axe);
  for (const path of screens) {
    await step(page, `${path}, as ${who}`, async () => {
      await go(page, path);
      await look(page, path);
    });
  }
  await context.close();
}

// Returns the paths of all screens and tabs.
async function addresses() {
  const latest = async (tool) => (await api(settings.viewer, 'GET', `/calls?tool=${tool}&limit=1`)).calls[0].id;
  return [
    '/', '/catalog', '/catalog?q=invoice', '/catalog?q=there-is-no-such-tool',
    ...['try', 'schema', 'who', 'calls', 'declared'].map((tab) => `/tools/-/plan_trip?tab=${tab}`), '/tools/up/ping', '/tools/-/none',
    '/servers', '/servers/up', ...['pending', 'tools', 'pins', 'stderr'].map((tab) => `/servers/up?tab=${tab}`), '/servers/gone',
    '/packs', '/toolsets', '/toolsets?tab=history', '/toolsets/desk', '/gates', '/gates?gate=chat', '/gates?gate=all&tab=connect',
    '/calls', `/calls/${await latest('hello')}`, `/calls/${await latest('throw')}`, '/calls?tool=none',
    '/spend', '/spend?tab=accounts', '/spend?tab=sessions', '/links', '/connections', '/limits', '/keys', '/problems', '/changes', '/nowhere',
  ];
}

// Returns the paths for a caller that lacks the viewer scope, including some that are not allowed.
async function ownAddresses() {
  const { calls } = await api(settings.caller, 'GET', '/calls?limit=1');
  return [
    '/', '/calls', '/calls?tool=none', `/calls/${calls[0].id}`, '/spend', '/spend?tab=accounts', '/spend?tab=sessions', '/links', '/connections',
    '/servers', '/tools/-/plan_trip?tab=try', '/nowhere',
  ];
}

// Checks one screen in both themes.
async function look(page, path) {
  await judge(page, `${path} (light, ${size})`, {});
  await setTheme(page, 'dark');
  await judge(page, `${path} (dark, ${size})`, { runOnly: ofColor });
  await setTheme(page, 'light');
}

// Changes the theme, and waits until all colors have changed.
async function setTheme(page, colorScheme) {
  await page.emulateMedia({ colorScheme });
  await page.waitForFunction(() => !document.getAnimations().some((animation) => animation instanceof CSSTransition && animation.playState === 'running'));
}

// Checks one screen in the current theme, with some or all rules of axe.
async function judge(page, where, rules) {
  const boxes = () => page.evaluate(() => ({ wide: document.documentElement.scrollWidth, room: document.documentElement.clientWidth }));
  await eventually(`${where} fits the window`, async () => { const { wide, room } = await boxes(); return wide <= room; }, boxes);
  const { violations } = await page.evaluate((options) => window.axe.run(document, { resultTypes: ['violations'], ...options }), rules);
  for (const { id, impact, help, nodes } of violations) {
    const grave = impact === 'serious' || impact === 'critical';
    check(`${where}: ${id}, ${help}`, !grave, nodes.slice(0, 3).map((node) => `${node.target} ${node.failureSummary}`.slice(0, 300)));
  }
}

// Checks the sign-in page.
async function signInPage() {
  const { page, context, expect } = await open({ size: sizes[size] });
  expect(/401 GET .*\/me/);
  await step(page, 'sign-in', async () => {
    await page.goto('/console/');
    await settled(page);
    await page.evaluate(axe);
    await look(page, 'the sign-in page');
  });
  await context.close();
}
