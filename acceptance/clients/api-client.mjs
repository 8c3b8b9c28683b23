// Generates a client from the OpenAPI document and calls every operation with it. Each response
// must have a documented status and match its schema.
//
// The argument is a JSON object with the members document (a file), url (of the API) and tokens
// (operator and viewer). Run it in an empty folder. It prints the called operations, the error
// statuses and every fault.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { createClient as generate } from '@hey-api/openapi-ts';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

const settings = JSON.parse(process.argv[2]);
const doc = JSON.parse(await readFile(settings.document, 'utf8'));
const { sdk, createClient } = await load(settings.document, resolve('sdk'));
const schemas = addFormats.default(new Ajv2020({ strict: false, allErrors: true })).addSchema(doc, 'document');
const operations = new Map();
for (const [path, item] of Object.entries(doc.paths)) {
  for (const [method, operation] of Object.entries(item)) operations.set(operation.operationId, { path, method, operation });
}

const called = new Set();
const refused = new Set();
const faults = [];

// Generates the client in a folder and imports it.
async function load(document, folder) {
  await mkdir(folder);
  await writeFile(resolve('package.json'), '{"type":"module"}');
  await generate({
    input: document,
    output: { path: folder, module: { extension: '.ts' } },
    plugins: ['@hey-api/client-fetch', '@hey-api/typescript', '@hey-api/sdk'],
    logs: { level: 'silent', file: false },
  });
  const [sdk, { createClient }] = await Promise.all(['index.ts', 'client/index.ts'].map((f) => import(pathToFileURL(resolve(folder, f)))));
  return { sdk, createClient };
}

// Returns a client with a token. An empty token means unauthenticated.
function as(token) {
  return createClient({ baseUrl: settings.url, auth: (how) => (how.scheme === 'bearer' ? token : undefined) });
}

const operator = as(settings.operator);
const viewer = as(settings.viewer);
const anonymous = as('');

function fault(id, text, value) {
  faults.push(`${id}: ${text}${value === undefined ? '' : ': ' + JSON.stringify(value).slice(0, 2000)}`);
}

function expect(what, holds, value) {
  if (!holds) fault('expected', what, value);
}

// The generator may change the case of acronyms: getOpenAPI becomes getOpenApi.
const operationFunction = (id) => sdk[id] ?? sdk[Object.keys(sdk).find((name) => name.toLowerCase() === id.toLowerCase())];

const escape = (part) => part.replaceAll('~', '~0').replaceAll('/', '~1');

// Checks a value against the schema at a path in the document.
function fits(id, path, value) {
  const validate = schemas.getSchema('document#/' + path.map(escape).map(encodeURIComponent).join('/'));
  if (!validate(value)) fault(id, `does not match ${path.at(-1) === 'schema' ? 'its schema' : path.join('/')}: ${schemas.errorsText(validate.errors)}`, value);
}

// Calls an operation, checks the response against the document, and returns it.
async function call(id, options = {}, status, client = operator) {
  called.add(id);
  const { path, method, operation } = operations.get(id);
  const { data, error, response } = await operationFunction(id)({ client, ...options });
  if (response === undefined) throw new Error(`${id}: ${error}`);
  const documented = Object.keys(operation.responses);
  const wanted = status ?? Number(documented.find((s) => s.startsWith('2')));
  if (response.status !== wanted) fault(id, `returned ${response.status} instead of ${wanted}`, data ?? error);
  const answer = operation.responses[response.status];
  if (answer === undefined) {
    fault(id, `returned undocumented status ${response.status}; documented: ${documented}`);
    return error;
  }
  if (!response.ok) refused.add(response.status);
  const type = response.headers.get('content-type')?.split(';')[0];
  const [media] = Object.keys(answer.content ?? {});
  if (type !== (media ?? undefined) && !(type === undefined && media === undefined)) fault(id, `has the media type ${type} instead of ${media}`);
  if (media) fits(id, ['paths', path, method, 'responses', String(response.status), 'content', media, 'schema'], response.ok ? data : error);
  return response.ok ? data : error;
}

const textOf = (answer) => answer.result?.content?.[0]?.text;

// Polls until a value satisfies a condition.
async function until(what, read, good) {
  for (let i = 0; i < 1200; i++) {
    const value = await read();
    if (good(value)) return value;
    await new Promise((r) => setTimeout(r, 50));
  }
  throw new Error(`timeout: ${what}`);
}

async function identity() {
  const me = await call('signIn', { body: { key: settings.operator } }, undefined, anonymous);
  expect('an operator on PostgreSQL', me.role === 'operator' && me.store === 'postgres', me);
  await call('signIn', { body: { key: 'ty_unknown' } }, 401, anonymous);
  await call('signIn', { body: { key: 'x'.repeat(1 << 17) } }, 413, anonymous);
  await call('signOut', {}, undefined, anonymous);
  await call('getMe');
  await call('getMe', {}, 401, as('ty_aaaaaaaaaa_' + 'b'.repeat(49)));
  await call('getOverview');
  await call('getOverview', {}, 401, anonymous);
  const { minutes } = await call('getTraffic', { query: { minutes: 30 } });
  expect('one row per minute', minutes.length === 30, minutes.length);
  await call('getTraffic', { query: { minutes: 0 } }, 400);
  const document = await call('getOpenAPI', {}, undefined, anonymous);
  expect('the document equals the one in the repository', JSON.stringify(document) === JSON.stringify(doc));
}

async function keys() {
  const { key, token } = await call('createKey', { body: { name: 'script', caller: 'carol', account: 'acme', scopes: ['viewer'], ttl: '1h' } });
  const carol = as(token);
  expect('a key with the role viewer', (await call('getMe', {}, undefined, carol)).role === 'viewer');
  await call('createKey', { body: { name: 'more', caller: 'carol' } }, 403, carol);
  await call('createKey', { body: { name: 'more', caller: 'carol', ttl: 'soon' } }, 400);
  const { keys } = await call('listKeys');
  expect('the new key is listed', keys.some((k) => k.prefix === key.prefix && k.state === 'active'), keys);
  await call('revokeKey', { path: { prefix: key.prefix } });
  await call('revokeKey', { path: { prefix: 'nothing' } }, 404);
  const after = await call('listKeys');
  expect('the key is revoked', after.keys.some((k) => k.prefix === key.prefix && k.state === 'revoked'), after);
}

async function people() {
  const { issuers } = await call('getSignIn', {}, undefined, anonymous);
  expect('no issuer is configured', issuers.length === 0, issuers);
  await call('beginSignIn', { path: { issuer: 'corp' } }, 404, anonymous);
  await call('completeSignIn', { body: { issuer: 'corp', secret: 'x', state: 'x', code: 'x' } }, 401, anonymous);
  await call('listIssuers', {}, undefined, viewer);
  const path = { caller: 'corp:ann' };
  await call('blockPerson', { path, body: {} }, 403, viewer);
  const blocked = await call('blockPerson', { path, body: { reason: 'test' } });
  expect('the person is blocked', blocked.blocked?.by === 'olivia', blocked);
  await call('checkClaims', { body: { claims: { iss: 'https://login.example.com' } } }, 404, viewer);
  const { people } = await call('listPeople', { query: { state: 'blocked' } }, undefined, viewer);
  expect('the person is listed', people.length === 1 && people[0].role === 'none', people);
  expect('the person is not blocked', (await call('unblockPerson', { path })).blocked === undefined);
  await call('unblockPerson', { path: { caller: 'corp:nobody' } }, 404);
  await call('deleteCaller', { path }, 403, viewer);
  const deletion = await call('deleteCaller', { path });
  expect('the person is deleted', deletion.deleted.people === 1 && deletion.pseudonym.startsWith('deleted:'), deletion);
  await call('deleteCaller', { path }, 404);
}

async function connections() {
  const { connections } = await call('listConnections', {}, undefined, viewer);
  expect('no server is called as a person', connections.length === 0, connections);
  const path = { server: 'nothing' };
  await call('connect', { path }, 404);
  await call('listServerConnections', { path }, 404, viewer);
  await call('reviewConnection', { path, body: { ticket: 'x' } }, 404);
  await call('signInToServer', { path, body: {} }, 404);
  await call('enterKey', { path, body: { key: 'x' } }, 404);
  await call('completeConnection', { body: { response: 'code=x&state=x' } }, 400);
  await call('disconnect', { path: { server: 'nothing' } }, 404);
}

async function catalog() {
  const { total, tools } = await call('searchTools', { query: { q: 'hell', source: '-', mode: 'read', limit: 5 } });
  expect('the tool is found by a prefix', total === 1 && tools[0].name === 'hello', tools);
  await call('searchTools', { query: { limit: 100000 } }, 400);
  const tool = await call('getTool', { path: { source: '-', name: 'hello' } });
  expect('a tool has a schema and a price', tool.inputSchema && tool.priceUsd === '0.001', tool);
  await call('getTool', { path: { source: 'up', name: 'echo' } });
  await call('getTool', { path: { source: '-', name: 'nothing' } }, 404);
  const { problems } = await call('listProblems');
  expect('a server that is down is a problem', problems.length > 0);
  const { limits } = await call('listLimits');
  expect('the limit of a tool is listed', limits.some((l) => l.tool === 'random' && l.perMinute === 1), limits);
}

async function money() {
  await call('fundAccount', { path: { id: 'acme' }, body: { amountUsd: '5', reference: 'first' } });
  const again = await call('fundAccount', { path: { id: 'acme' }, body: { amountUsd: '5', reference: 'first' } });
  expect('a reference funds only once', again.remainingUsd === '5', again);
  await call('fundAccount', { path: { id: 'acme' }, body: { amountUsd: 'much', reference: 'second' } }, 400);
  await call('fundAccount', { path: { id: 'acme' }, body: { amountUsd: '-50', reference: 'third' } }, 402);
  await call('getAccount');
  await call('listAccounts');
  await call('openSession', { body: { limitUsd: '1000' } }, 402);
  const session = await call('openSession', { body: { limitUsd: '1' }, headers: { 'Idempotency-Key': 'opened' } });
  const path = { id: session.id };
  const paid = await call('executeTool', { body: { tool: 'hello', args: { name: 'Ann' }, session: session.id } });
  expect('the session pays', textOf(paid) === 'Hello, Ann!' && paid.receipt.priceUsd === '0.001' && paid.session.spentUsd === '0.001', paid);
  await call('getSession', { path });
  await call('getSession', { path: { id: 'nothing' } }, 404);
  const { sessions } = await call('listSessions', { query: { state: 'open' } });
  expect('the session is listed', sessions.length === 1 && sessions[0].id === session.id, sessions);
  await call('listSessions', { query: { state: 'lost' } }, 400);
  await call('closeSession', { path });
}

async function links() {
  const path = { kind: 'wallet' };
  await call('setLink', { path, body: { address: '0x52908400098527886E0F7030069857D2E4169EE7' } });
  await call('setLink', { path, body: { address: '0x' } }, 400);
  await call('getLink', { path });
  const { links } = await call('listLinks');
  expect('the link is listed', links.wallet !== undefined, links);
  await call('removeLink', { path });
  await call('getLink', { path }, 404);
}

async function calls() {
  const one = await call('callTool', { body: { tool: 'mcp_up__echo', args: { text: 'over the wire' }, gate: 'all' } });
  expect('a call of a server tool', textOf(one) === 'over the wire', one);
  await call('callTool', { body: { tool: 'nothing', gate: 'all' } }, 404);
  await call('callTool', { body: { tool: 'hello', args: 'Ann', gate: 'all' } }, 400);
  await call('callTool', { body: { tool: 'hello', args: { name: 'x'.repeat(2 << 20) }, gate: 'all' } }, 413);
  const once = (name) => ({ body: { tool: 'hello', args: { name }, gate: 'sdk' }, headers: { 'Idempotency-Key': 'once' } });
  const [first, second] = [await call('callTool', once('Bob')), await call('callTool', once('Bob'))];
  expect('a call with an idempotency key runs once', second.receipt.replayed === true && textOf(first) === textOf(second), [first, second]);
  await call('callTool', once('Eve'), 409);
  await call('callTool', { body: { tool: 'random', gate: 'all' } });
  await call('callTool', { body: { tool: 'random', gate: 'all' } }, 429);
  await batch();
  const nested = await call('callTool', { body: { tool: 'nested', gate: 'all' } });
  const { children } = await until('the nested call is recorded', () => call('getCall', { path: { id: nested.receipt.call } }), (c) => c.children.length > 0);
  expect('a call has its nested calls', children[0].tool === 'hello' && children[0].parent === nested.receipt.call, children);
  await record(one.receipt.call);
}

// Calls several tools in a batch. They finish in a different order.
async function batch() {
  const requests = Array.from({ length: 12 }, (_, i) => (i === 7
    ? { tool: 'nothing', gate: 'all' }
    : i % 4 === 0
      ? { tool: 'mcp_up__sleep', args: { ms: 200 - 10 * i }, gate: 'all' }
      : { tool: 'hello', args: { name: `N${i}` }, gate: 'all' }));
  const { results } = await call('callTools', { body: { calls: requests } });
  expect('one result per call', results.length === requests.length, results);
  results.forEach((r, i) => {
    if (i === 7) {
      expect('an error at its index', r.problem?.error === 'METHOD_NOT_FOUND', r);
      fits('callTools', ['components', 'schemas', 'Problem'], r.problem);
    } else if (i % 4 !== 0) {
      expect(`result ${i} belongs to call ${i}`, textOf(r) === `Hello, N${i}!`, r);
    }
  });
  await call('callTools', { body: { calls: [] } }, 400);
}

// Reads the recorded calls.
async function record(id) {
  const { calls } = await until('the calls are recorded', () => call('listCalls', { query: { server: 'up', limit: 100 } }), (page) => page.calls.length >= 4);
  expect('all calls are of the server', calls.every((c) => c.server === 'up'), calls);
  const page = await call('listCalls', { query: { limit: 2 } });
  const next = await call('listCalls', { query: { limit: 2, before: page.next } });
  const ids = [...page.calls, ...next.calls].map((c) => c.id);
  expect('two pages have different calls', new Set(ids).size === 4, ids);
  await call('listCalls', { query: { before: 'nowhere' } }, 400);
  const detail = await call('getCall', { path: { id } });
  expect('a call has its steps', detail.tool === 'echo' && detail.marks.some((m) => m.step === 'run'), detail);
  await call('getCall', { path: { id: 'nothing' } }, 404);
  const { latencies } = await call('listLatencies', { query: { server: 'up' } });
  expect('a tool has latencies', latencies.some((l) => l.tool === 'echo' && l.p50Ns > 0), latencies);
  for (const by of ['account', 'tool', 'day', 'tool,day', 'account,tool,day']) {
    const { costs } = await call('listCosts', { query: { by } });
    expect(`costs by ${by}`, costs.some((c) => c.usd !== '0' && c.charged > 0), costs);
  }
  await call('listCosts', { query: { by: 'moon' } }, 400);
  await watch();
}

// Follows the live stream until a new call has started and finished.
async function watch() {
  called.add('watchCalls');
  const end = new AbortController();
  const seen = [];
  const { stream } = await sdk.watchCalls({
    client: operator, query: { tool: 'timestamp' }, signal: end.signal, sseMaxRetryAttempts: 1,
    onSseEvent: (e) => e.event && seen.push(e), onSseError: (e) => end.signal.aborted || fault('watchCalls', String(e)),
  });
  const timer = setTimeout(() => end.abort(), 60_000);
  const calling = setInterval(() => call('callTool', { body: { tool: 'timestamp', gate: 'all' } }), 1000); // the first call may come before the stream is open
  const complete = () => seen.some((b, i) => b.event === 'begin' && seen.slice(i + 1).some((c) => c.event === 'call' && c.data.id === b.data.id));
  for await (const _ of stream) {
    if (complete()) break;
  }
  clearTimeout(timer);
  clearInterval(calling);
  end.abort();
  expect('a call starts and ends', complete(), seen);
  for (const e of seen.filter((e) => e.event === 'call')) fits('watchCalls', ['components', 'schemas', 'Calls', 'properties', 'calls', 'items'], e.data);
}

async function servers() {
  const { servers } = await call('listServers');
  expect('one is up, one is down', servers.map((s) => s.id).join() === 'gone,up' && servers[1].state === 'up', servers);
  const up = { id: 'up' };
  expect('nothing is pending', (await call('listPending', { path: up })).pending.length === 0);
  for (const tool of ['mcp_up__grow', 'mcp_up__mutate']) await call('callTool', { body: { tool, gate: 'all' } });
  const { pending } = await until('two definitions are pending', () => call('listPending', { path: up }), (page) => page.pending.length === 2);
  const [grown, plain] = ['grown', 'plain'].map((tool) => pending.find((p) => p.tool === tool));
  expect('one is new and one is changed', grown?.kind === 'new' && plain?.kind === 'changed' && plain.changes.length > 0, pending);
  await call('approveDefinitions', { path: up, body: { tools: [{ tool: 'plain', hash: 'f'.repeat(64) }] } }, 409);
  await call('approveDefinitions', { path: up, body: { tools: [{ tool: plain.tool, hash: plain.hash }] } }, 403, viewer);
  const approved = await call('approveDefinitions', { path: up, body: { tools: [{ tool: plain.tool, hash: plain.hash }] } });
  expect('one is approved, one is pending', approved.approved === 1 && approved.waiting === 1, approved);
  await until('the changed tool is offered', () => call('getGate', { path: { name: 'all' } }), (gate) => gate.toolList.some((t) => t.tool === 'plain'));
  expect('the changed tool is served', textOf(await call('callTool', { body: { tool: 'mcp_up__plain', gate: 'all' } })) === 'changed');
  const rejected = await call('rejectDefinitions', { path: up, body: { tools: [{ tool: grown.tool, hash: grown.hash }] } });
  expect('one is rejected, none is pending', rejected.rejected === 1 && rejected.waiting === 0, rejected);
  await until('the events are listed', () => call('getServer', { path: up }), ({ events }) => ['changed', 'approved', 'rejected'].every((kind) => events.some((e) => e.kind === kind)));
  await call('getServer', { path: { id: 'nothing' } }, 404);
  await call('listPending', { path: { id: 'gone' } }, 503);
  await call('retryServer', { path: { id: 'gone' } });
}

async function toolsets() {
  let { version, editable } = await call('listToolsets');
  expect('toolsets are editable', editable === true);
  const path = { name: 'mine' };
  const made = await call('putToolset', { path, body: { tools: ['hello', 'random'], servers: [{ id: 'up', tools: ['echo'] }], version } });
  expect('the toolset has three tools', made.count === 3 && made.from === 'api', made);
  await call('putToolset', { path, body: { tools: ['hello'], version } }, 409);
  await call('putToolset', { path: { name: 'some' }, body: { tools: ['nothing'], version: version + 1 } }, 400);
  await call('getToolset', { path });
  await call('getToolset', { path: { name: 'nothing' } }, 404);
  const preview = await call('previewToolset', { path: { name: 'some' }, body: { tools: ['hello', 'timestamp'] } });
  const [chat] = preview.gates;
  expect('the preview lists added and removed tools', chat.gate === 'chat' && chat.added.join() === 'timestamp' && chat.removed.join() === 'calculator', preview);
  await exports('exportToolset', { name: 'some' }, 'hello');
  ({ version } = await call('listToolsets'));
  await call('removeToolset', { path, query: { version } });
  await call('getToolset', { path }, 404);
}

// Exports in every format.
async function exports(id, path, tool) {
  for (const format of ['openai', 'anthropic', 'gemini', 'ai-sdk', 'openai-deferred', 'anthropic-deferred']) {
    const functions = await call(id, { path, query: { format } });
    expect(`${format} has ${tool}`, JSON.stringify(functions).includes(`"${tool}"`), functions);
  }
  await call(id, { path, query: { format: 'morse' } }, 400);
}

async function gates() {
  let { version } = await call('listGates');
  const path = { name: 'mine' };
  await call('putGate', { path, body: { mode: 'read', toolset: 'some', callers: 'keys', version } });
  await call('putGate', { path, body: { mode: 'read', version: 0 } }, 409);
  const gate = await call('getGate', { path });
  expect('the gate offers the toolset', gate.toolList.map((t) => t.name).join() === 'calculator,hello', gate);
  await exports('exportGate', path, 'hello');
  ({ version } = await call('listGates'));
  await call('removeGate', { path, query: { version } });
  await call('getGate', { path }, 404);
}

async function prices() {
  const path = { source: '-', tool: 'hello' };
  const { version } = await call('getPrice', { path });
  const set = await call('putPrice', { path, body: { executeUsd: '0.25', version } });
  expect('the price is set', set.executeUsd === '0.25' && set.from === 'api', set);
  await call('putPrice', { path, body: { executeUsd: '0.5', version } }, 409);
  await call('removePrice', { path, query: { version: set.version } });
  await call('getPrice', { path: { source: '-', tool: 'nothing' } }, 404);
}

async function edits() {
  const { edits } = await call('listEdits');
  const [{ version: current }] = edits;
  const before = edits.find((e) => e.note === 'gate mine');
  expect('the last edit is current', edits.length === 6 && edits[0].current === true && before !== undefined, edits);
  const edit = await call('getEdit', { path: { version: String(before.version) } });
  expect('a version has its gates', edit.gates.mine?.toolset === 'some', edit);
  await call('getEdit', { path: { version: '999' } }, 404);
  const path = { version: String(before.version) };
  await call('restoreEdit', { path, body: { version: 0 } }, 409);
  const restored = await call('restoreEdit', { path, body: { version: current } });
  expect('restoring creates a new version', restored.version === current + 1, restored);
  await call('getGate', { path: { name: 'mine' } });
}

async function packs() {
  const { packs } = await call('listPacks');
  expect('the pack has actions', packs[0]?.name === 'trading' && packs[0].actions.some((a) => a.name === 'pause'), packs);
  const path = { pack: 'trading', action: 'pause' };
  const { result } = await call('runPackAction', { path, body: { args: { account: 'lab', reason: 'a holiday' } } });
  expect('the action runs', result.isError !== true, result);
  await call('runPackAction', { path, body: { args: { account: 'lab', reason: 'a holiday' } } }, 403, viewer);
  await call('runPackAction', { path: { ...path, action: 'nothing' }, body: {} }, 404);
}

async function approvals() {
  const request = (name) => call('callTool', { body: { tool: 'guarded', args: { name }, gate: 'all' } }, 403);
  const asked = await request('Ann');
  expect('a call needs approval', asked.error === 'APPROVAL_REQUIRED' && asked.retryable === true && asked.approval !== undefined, asked);
  const path = { id: asked.approval };
  const { approvals } = await call('listApprovals', { query: { state: 'pending' } });
  expect('the approval is pending', approvals.length === 1 && approvals[0].id === asked.approval && approvals[0].tool === 'guarded', approvals);
  const shown = await call('getApproval', { path });
  expect('the arguments are shown', shown.arguments.name === 'Ann' && shown.rule === 'guard', shown);
  await call('getApproval', { path: { id: 'nothing' } }, 404);
  await call('listApprovals', { query: { state: 'lost' } }, 400);
  await call('approveCall', { path, body: {} }, 403); // callers cannot approve their own calls
  await call('approveCall', { path, body: {} }, 403, viewer);
  const { token } = await call('createKey', { body: { name: 'phone', caller: 'paula', scopes: ['operator'] } });
  const paula = as(token);
  await call('approveCall', { path, body: { remember: { minutes: 0 } } }, 400, paula);
  const approved = await call('approveCall', { path, body: { reason: 'fine', remember: { minutes: 60, arguments: 'same' } } }, undefined, paula);
  expect('it is approved', approved.state === 'approved' && approved.decision.by === 'paula', approved);
  await call('declineCall', { path, body: {} }, 409, paula);
  for (let i = 0; i < 2; i++) await call('callTool', { body: { tool: 'guarded', args: { name: 'Ann' }, gate: 'all' } });
  expect('it is used', (await call('getApproval', { path })).state === 'used');
  const { grants } = await call('listGrants');
  expect('the approval is remembered', grants.length === 1 && grants[0].arguments === 'same', grants);
  await call('deleteGrant', { path: { id: grants[0].id } });
  await call('deleteGrant', { path: { id: 'nothing' } }, 404);
  const other = await request('Bob');
  await call('declineCall', { path: { id: other.approval }, body: { reason: 'no' } }, undefined, paula);
  const declined = await call('callTool', { body: { tool: 'guarded', args: { name: 'Bob' }, gate: 'all' } }, 403);
  expect('it is declined', declined.error === 'AUTHORIZATION_ERROR', declined);
}

async function asks() {
  const result = await call('runQuery', { body: { query: 'Greet Ann.', agent: 'guide' } });
  expect('the agent answers', result.response === 'Hello, Ann!', result);
  await call('runQuery', { body: { query: 'Greet Ann.', agent: 'nobody' } }, 404);
  const job = await call('startQuery', { body: { query: 'Greet Ann.', agent: 'guide' } }, 202);
  const done = await until('the job ends', () => call('getQueryJob', { path: { id: job.jobId } }), (j) => j.status !== 'running');
  expect('the job has an answer', done.result?.response === 'Hello, Ann!', done);
  const { queries } = await until('the queries are recorded', () => call('listQueries'), (page) => page.queries.length >= 2);
  const query = await call('getQuery', { path: { id: queries[0].id } });
  expect('a query has its agent', query.agent === 'guide', query);
}

async function changes() {
  const { changes } = await call('listChanges', { query: { limit: 1000 } });
  const actions = new Set(changes.filter((c) => c.status >= 200 && c.status < 300).map((c) => c.action));
  for (const action of ['key.create', 'key.revoke', 'account.fund', 'server.approve', 'server.reject', 'server.retry', 'toolset.put', 'gate.remove', 'edits.restore', 'approval.approve', 'approval.decline', 'grant.delete', 'person.block', 'person.unblock', 'caller.delete']) {
    expect(`${action} is in the audit log`, actions.has(action), [...actions]);
  }
  expect('refused changes are in the audit log', changes.some((c) => c.action === 'server.approve' && c.status === 409), changes);
  await call('listChanges', { query: { before: 'nowhere' } }, 400);
  const exported = await call('exportChanges', { query: { format: 'jsonl' }, parseAs: 'text' }, undefined, viewer);
  expect('the audit log is exported', exported.trim().split('\n').length >= changes.length, exported.slice(0, 200));
  await call('exportChanges', { query: { format: 'xml' } }, 400);
}

for (const part of [identity, keys, people, connections, catalog, money, links, calls, servers, toolsets, gates, prices, edits, packs, approvals, asks, changes]) {
  try {
    await part();
  } catch (error) {
    fault(part.name, error.stack);
  }
}
console.log(JSON.stringify({ called: [...called].sort(), refused: [...refused].sort(), faults }));
process.exit(0); // open connections would keep the process alive
