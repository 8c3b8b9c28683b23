// Uses a home with the official client library of Home Assistant's own frontend.
import { callService, createConnection, createLongLivedTokenAuth, getStates, subscribeEntities } from 'home-assistant-js-websocket';
import WebSocket from 'ws';

globalThis.WebSocket = WebSocket;
const [url, token] = process.argv.slice(2);
const code = (e) => (typeof e === 'number' ? e : e.code);

const connection = await createConnection({ auth: createLongLivedTokenAuth(url, token) });
const states = await getStates(connection);
const registry = (name) => connection.sendMessagePromise({ type: `config/${name}_registry/list` });
const areas = await registry('area');
const entities = await registry('entity');

const seen = [];
let changed;
const off = new Promise((resolve) => { changed = resolve; });
subscribeEntities(connection, (all) => {
  seen.push(all['light.kitchen'].state);
  if (all['light.kitchen'].state === 'off') changed(all['light.kitchen']);
});
while (seen.length === 0) await new Promise((resolve) => { setTimeout(resolve, 5); });
await callService(connection, 'light', 'turn_off', {}, { entity_id: 'light.kitchen' });
const light = await off;

const notFound = await callService(connection, 'light', 'explode', {}).catch(code);
const unknown = await connection.sendMessagePromise({ type: 'no/such/command' }).catch(code);
await connection.ping();
connection.close();
const refused = await createConnection({ auth: createLongLivedTokenAuth(url, 'wrong') }).catch(code);
console.log(JSON.stringify({
  version: connection.haVersion, states: states.length, areas: areas.map((a) => a.area_id), exposed: entities.find((e) => e.entity_id === 'sensor.diary').options.conversation.should_expose,
  seen: [seen[0], seen.at(-1)], brightness: light.attributes.brightness, changed: light.last_changed.slice(0, 2), notFound, unknown, refused,
}));
