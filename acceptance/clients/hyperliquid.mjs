// Trades on a Hyperliquid venue with the community's SDK, which has its own signing code.
import { ExchangeClient, HttpTransport, InfoClient } from '@nktkas/hyperliquid';
import { Wallet } from 'ethers';

const [url, key, user] = process.argv.slice(2);
const transport = new HttpTransport({ apiUrl: url, isTestnet: true });
const info = new InfoClient({ transport });
const exchange = new ExchangeClient({ transport, wallet: new Wallet(key), isTestnet: true });
const cloid = '0xa1b2c3d4a1b2c3d4a1b2c3d4a1b2c3d4';
const limit = (p, s, tif, more = {}) => ({ a: 1, b: true, p, s, r: false, t: { limit: { tif } }, ...more });
const failure = async (promise) => {
  try {
    await promise;
    return 'no error';
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
};

const out = {};
const now = Date.now();
out.candles = (await info.candleSnapshot({ coin: 'BTC', interval: '5m', startTime: now - 3_600_000, endTime: now })).length;
const [meta, contexts] = await info.metaAndAssetCtxs();
out.markets = meta.universe.map((m) => m.name);
out.mark = contexts[0].markPx;
out.funding = (await info.fundingHistory({ coin: 'BTC', startTime: now - 10 * 3_600_000, endTime: now })).length;
out.predicted = (await info.predictedFundings()).length;
out.book = (await info.l2Book({ coin: 'BTC' })).levels.map((side) => side.length);
out.role = (await info.userRole({ user })).role;
out.agents = (await info.extraAgents({ user })).length;
out.taker = (await info.userFees({ user })).userCrossRate;

const filled = await exchange.order({ orders: [limit('4100', '0.5', 'Ioc')], grouping: 'na' });
out.filled = filled.response.data.statuses[0].filled.totalSz;
const resting = await exchange.order({ orders: [limit('1670.1', '0.0147', 'Gtc', { c: cloid })], grouping: 'na' });
out.resting = resting.response.data.statuses[0].resting.cloid;
out.open = (await info.frontendOpenOrders({ user })).length;
out.status = (await info.orderStatus({ user, oid: cloid })).order.status;
out.unknown = (await info.orderStatus({ user, oid: 1 })).status;
out.canceled = (await exchange.cancelByCloid({ cancels: [{ asset: 1, cloid }] })).response.data.statuses[0];
out.again = await failure(exchange.cancelByCloid({ cancels: [{ asset: 1, cloid }] }));
out.fills = (await info.userFillsByTime({ user, startTime: now - 10_000 })).map((f) => f.dir);
out.position = (await info.clearinghouseState({ user })).assetPositions[0].position.szi;
out.small = await failure(exchange.order({ orders: [limit('3000', '0.001', 'Gtc')], grouping: 'na' }));
out.schedule = (await exchange.scheduleCancel({ time: now + 60_000 })).status;
const stops = await exchange.order({
  orders: [
    limit('4100', '0.5', 'Ioc'),
    { a: 1, b: false, p: '3400', s: '0.5', r: true, t: { trigger: { isMarket: true, triggerPx: '3800', tpsl: 'sl' } } },
  ],
  grouping: 'normalTpsl',
});
out.stops = stops.response.data.statuses.map((s) => Object.keys(s)[0]);
out.expired = await failure(exchange.order({ orders: [limit('4100', '0.5', 'Ioc')], grouping: 'na' }, { expiresAfter: now - 60_000 }));
const stranger = new ExchangeClient({ transport, wallet: Wallet.createRandom(), isTestnet: true });
out.stranger = await failure(stranger.order({ orders: [limit('4100', '0.5', 'Ioc')], grouping: 'na' }));
console.log(JSON.stringify(out));
