// Edits a toolset: the preview matches the result, MCP clients see a change within a second, and an
// earlier version can be restored. Then it edits a gate and a price.
import { api, check, enter, figure, listed, main, mcp, settings, settled, step, until } from './page.mjs';

await main(async () => {
  const { page, context } = await enter(settings.operator, '/toolsets');
  const before = await listed('chat');

  await step(page, 'the list links to the toolset', async () => {
    await page.getByRole('table', { name: 'Toolsets' }).getByRole('link', { name: 'desk' }).click();
    await page.getByRole('heading', { name: 'desk', level: 1 }).waitFor();
  });

  await step(page, 'the preview shows the effect', async () => {
    const catalog = page.getByRole('region', { name: 'Catalog' });
    for (const name of ['list_patient', 'merge_vehicle_draft']) {
      await catalog.getByRole('searchbox', { name: 'Find a tool' }).fill(name);
      await catalog.getByRole('listitem').filter({ has: page.getByText(name, { exact: true }) }).getByRole('checkbox').click();
    }
    await page.getByRole('button', { name: 'Remove rank_quote' }).click();
    const effect = page.getByRole('region', { name: 'Effect after saving' });
    const gate = effect.getByRole('region', { name: 'At gate chat' });
    await gate.getByText('+2 added').waitFor();
    await gate.getByText('−1 removed').waitFor();
    const words = (await gate.innerText()).replaceAll(/\s+/g, ' ');
    check('the preview has the number of tools at the gate', words.includes(`${before.size} ${before.size + 1} tools`), words);
    check('nothing is saved yet', (await listed('chat')).size === before.size);
  });

  await step(page, 'a save takes effect within a second', async () => {
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    const took = await until('MCP clients list the new tools', async () => {
      const tools = await listed('chat');
      return tools.has('list_patient') && tools.has('merge_vehicle_draft') && !tools.has('rank_quote');
    });
    figure('toolset: save to tools/list', `${took} ms`);
    check('the change is visible soon', took < 30_000, took);
    check('the gate matches the preview', (await listed('chat')).size === before.size + 1);
    await page.getByText('Saved desk.').waitFor();
    const result = await mcp('chat', 'tools/call', { name: 'list_patient', arguments: { id: 'p1' } });
    check('the new tool can be called', result.result?.content?.[0]?.text === 'p1', result);
  });

  await step(page, 'a second version', async () => {
    await page.getByRole('button', { name: 'Remove echo' }).click();
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await until('echo is gone', async () => !(await listed('chat')).has('echo'));
  });

  await step(page, 'an earlier version is restored', async () => {
    const { edits } = await api(settings.viewer, 'GET', '/edits');
    const first = edits.at(-1).version;
    await page.goto('/console/toolsets?tab=history');
    await page.getByRole('button', { name: new RegExp(`version ${first}$`) }).click();
    await page.getByRole('dialog').getByText('echo').first().waitFor();
    await page.getByRole('dialog').getByRole('button', { name: `Restore version ${first}` }).click();
    const took = await until('echo is back', async () => (await listed('chat')).has('echo'));
    figure('toolset: restore to tools/list', `${took} ms`);
    await page.getByText(`Restored version ${first}.`).waitFor();
  });

  await step(page, 'the export has the tools of the gate', async () => {
    await page.goto('/console/toolsets/desk');
    await settled(page);
    await page.getByRole('button', { name: 'Export' }).click();
    await page.getByRole('menuitem', { name: 'For OpenAI', exact: true }).click();
    await page.getByRole('dialog').getByText('list_patient').first().waitFor();
    await page.keyboard.press('Escape');
  });

  await step(page, 'a gate is edited', async () => {
    await page.goto('/console/gates?gate=chat');
    await settled(page);
    await page.getByRole('button', { name: 'Edit', exact: true }).click();
    await choose(page, 'Mode', 'Read');
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await until('write tools are gone', async () => !(await listed('chat')).has('mcp_up__rm'));
    await page.getByText('Saved gate chat.').waitFor();
    await page.getByRole('button', { name: 'Revert to file' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Revert', exact: true }).click();
    await until('write tools are back', async () => (await listed('chat')).has('mcp_up__rm'));
  });

  await step(page, 'the price of a tool is set and reset', async () => {
    await page.goto('/console/tools/-/rank_quote');
    await settled(page);
    await page.getByRole('button', { name: 'Change the price' }).click();
    await page.getByRole('dialog').getByText('Not set by an operator.').waitFor();
    await page.getByLabel('US dollars per call').fill('0.25');
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await page.getByRole('main').getByText('$0.25').first().waitFor();
    await page.getByRole('button', { name: 'Change the price' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Reset' }).click();
    await page.getByText('The price was reset.').waitFor();
    await until('the tool is free again', async () => !(await api(settings.viewer, 'GET', '/tools/-/rank_quote')).priceUsd);
  });
  await context.close();
  await viewer();
});

// Selects an item in a drop-down list.
async function choose(page, label, item) {
  await page.getByRole('combobox', { name: label }).click();
  await page.getByRole('option', { name: item, exact: true }).click();
}

// A viewer sees no controls that change anything.
async function viewer() {
  const { page, context } = await enter(settings.viewer, '/toolsets/desk');
  await step(page, 'a viewer cannot edit', async () => {
    await page.getByText('editing requires a key with the').waitFor();
    check('a viewer has no buttons', (await page.getByRole('main').getByRole('button', { name: /Save|Discard|Remove/ }).count()) === 0);
  });
  await context.close();
}
