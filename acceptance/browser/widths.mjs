// Checks every list and chart at five widths and in both themes, with long names, a year of spend and
// ten thousand tools: no horizontal scrolling, no column below its minimum width, and labels centered
// below their bars.
import { check, enter, figure, go, main, painted, settings, sleep, step } from './page.mjs';

const widths = [390, 768, 1024, 1280, 1440];
const screens = [
  '/', '/catalog', '/servers', '/servers/up?tab=tools', '/servers/up?tab=pins', '/packs', '/toolsets', '/gates', '/gates?gate=all', '/calls', '/spend?since=30d', '/spend?since=366d', '/spend?since=366d&by=week',
  '/spend?tab=accounts', '/spend?tab=sessions', '/limits', '/keys', '/changes', `/tools/-/${settings.long}?tab=calls`, `/tools/-/${settings.long}?tab=try`,
];

// This script is one of several parts that run at the same time.
const own = screens.filter((_, i) => i % settings.parts === settings.part);

await main(async () => {
  const { page, context } = await enter(settings.operator, '/', { size: { width: 1440, height: 900 } });
  for (const path of own) {
    await step(page, path, async () => {
      await go(page, path);
      for (const width of widths) {
        await page.setViewportSize({ width, height: width < 700 ? 844 : 900 });
        await painted(page);
        for (const theme of ['light', 'dark']) {
          await page.emulateMedia({ colorScheme: theme });
          await judge(page, `${path} (${theme}, ${width} px)`, width);
        }
      }
    });
  }
  await context.close();
  figure(`widths, part ${settings.part + 1}`, `${widths.length} widths, ${own.length} screens, 2 themes`);
});

// Checks one screen's layout.
async function judge(page, where, width) {
  const chart = where.startsWith('/spend?since') || where.startsWith('/ ');
  const fits = ({ wide, room, narrow, stray, tool, bars, labels, ticks }) =>
    wide <= room && (width <= 720 || narrow.length === 0) && stray.length === 0 && (tool === undefined || tool >= 200) && (!chart || (bars > 0 && labels > 1 && ticks > 2));
  let seen = await page.evaluate(measure);
  for (let i = 0; i < 1200 && !fits(seen); i++) { // tables and charts update with a delay
    await sleep(25);
    seen = await page.evaluate(measure);
  }
  check(`${where}: no horizontal scrolling`, seen.wide <= seen.room, { wide: seen.wide, room: seen.room });
  if (width > 720) check(`${where}: columns have their minimum width`, seen.narrow.length === 0, seen.narrow);
  check(`${where}: the tool column is at least 200 px wide`, seen.tool === undefined || seen.tool >= 200, seen.tool);
  check(`${where}: labels are centered below their bars`, seen.stray.length === 0, seen.stray);
  if (chart) {
    check(`${where}: the chart has bars, labels and ticks`, seen.bars > 0 && seen.labels > 1 && seen.ticks > 2, seen);
  }
  if (where.startsWith('/spend?since')) check(`${where}: ticks in dollars`, seen.tickTexts.every((text) => /^\$[\d,.]+$/.test(text)), seen.tickTexts);
}

// Runs in the page.
function measure() {
  const box = (element) => element.getBoundingClientRect();
  const center = (element) => box(element).left + box(element).width / 2;
  const charts = [...document.querySelectorAll('.Band svg')];
  const stray = charts.flatMap((chart) => {
    const bars = [...chart.querySelectorAll('[data-bar]')];
    const frame = box(chart);
    const left = Math.max(...[...chart.querySelectorAll('.Band-line')].map((line) => box(line).left));
    const step = (frame.right - left) / bars.length;
    return [...chart.querySelectorAll('.Band-label')].filter((label) => Math.abs(center(label) - (left + (Number(label.dataset.band) + 0.5) * step)) > 2 || box(label).right > frame.right + 1).map((label) => label.textContent);
  });
  const tool = document.querySelector('.Rows-tool');
  return {
    wide: document.documentElement.scrollWidth,
    room: document.documentElement.clientWidth,
    narrow: [...document.querySelectorAll('th[data-min]')].filter((head) => box(head).width > 0 && box(head).width < Number(head.dataset.min) - 1).map((head) => `${head.textContent} ${Math.round(box(head).width)} of ${head.dataset.min}`),
    tool: tool ? Math.round(box(tool).width) : undefined,
    stray,
    bars: document.querySelectorAll('.Band [data-bar]').length,
    labels: document.querySelectorAll('.Band .Band-label').length,
    ticks: document.querySelectorAll('.Band .Band-tick').length,
    tickTexts: [...document.querySelectorAll('.Band .Band-tick')].map((tick) => tick.textContent),
  };
}
