import { beforeEach, call, context, describe, expect, fn, stubGlobal, test } from "toolyard/test";
import { limits } from "./_service";
import * as compare from "./compare_gas_prices";
import * as gas from "./get_gas_prices";
import * as trades from "./stream_live_trades";

const prices: Record<string, string> = {
  "https://ethereum-rpc.publicnode.com": "0x4a817c800", // 20 gwei
  "https://polygon-bor-rpc.publicnode.com": "0x6fc23ac00", // 30 gwei
  "https://base-rpc.publicnode.com": "0x989680", // 0.01 gwei
};
const fetch = fn(async (url: string) => Response.json({ jsonrpc: "2.0", id: 1, result: prices[url] }));

beforeEach(() => stubGlobal("fetch", fetch));

test("limits follow from the tier", () => {
  expect(limits(1, 0.5)).toEqual({ maxRequestsPerMinute: 15, cooldownMs: 2000, maxConcurrency: 1 });
  expect(limits(100, 0.1).maxRequestsPerMinute).toBe(1);
});

describe("get_gas_prices", () => {
  test("returns the price and its unit", async () => {
    expect((await call(gas)).structuredContent).toEqual({ gasPrice: 20, unit: "gwei" });
    expect((await call(gas, { chainId: 8453 })).structuredContent).toEqual({ gasPrice: 0.01, unit: "gwei" });
  });

  test("an unknown chain is a mistake that the caller can correct", async () => {
    const result = await call(gas, { chainId: 5 });
    expect(result._meta?.["dev.toolyard/error"]).toMatchObject({ error: "VALIDATION_ERROR", correctable: true });
    expect(fetch).not.toHaveBeenCalled();
  });

  test("a busy service is a reason to wait", async () => {
    fetch.mockResolvedValue(new Response("", { status: 429, headers: { "retry-after": "3" } }));
    const result = await call(gas);
    expect(result._meta?.["dev.toolyard/error"]).toMatchObject({ error: "RATE_LIMITED", retryable: true, retryAfterMs: 3000 });
  });

  test.each([[503, ""], [200, '{"error":{"code":-32000}}']])("status %d without a price is an outage", async (status, body) => {
    fetch.mockResolvedValue(new Response(body, { status }));
    expect((await call(gas))._meta?.["dev.toolyard/error"].error).toBe("UNAVAILABLE");
  });
});

test("compare_gas_prices sorts by price", async () => {
  expect((await call(compare)).structuredContent).toEqual({
    prices: [
      { chainId: 8453, chain: "Base", gwei: 0.01 },
      { chainId: 1, chain: "Ethereum", gwei: 20 },
      { chainId: 137, chain: "Polygon", gwei: 30 },
    ],
    cheapest: "Base",
  });
});

test("stream_live_trades reports each trade once", async () => {
  const trade = (tid: number) => ({ tid, side: tid % 2 ? "B" : "A", px: "100.5", sz: "0.1", time: tid });
  fetch.mockResolvedValueOnce(Response.json([trade(2), trade(1)])).mockResolvedValueOnce(Response.json([trade(3), trade(2)]));
  const ctx = context();
  const result = await call(trades, { seconds: 2 }, ctx);
  expect(result.structuredContent).toMatchObject({ trades: [{ tid: 1 }, { tid: 2 }, { tid: 3 }] });
  expect(ctx.progress).toHaveBeenCalledTimes(3);
  expect(ctx.progress).toHaveBeenLastCalledWith(2, 2, "buy 0.1 BTC at 100.5");
});
