import { call, describe, expect, test } from "toolyard/test";
import * as analyze from "./analyze_my_positions";
import * as cross from "./cross_platform_analysis";
import * as snapshot from "./get_portfolio_snapshot";

const position = (coin: string, szi: string, positionValue: string, unrealizedPnl: string, leverage = 3) => ({ position: { coin, szi, positionValue, unrealizedPnl, leverage: { value: leverage } } });
const portfolio = { marginSummary: { accountValue: "1000.0" }, assetPositions: [position("BTC", "0.01", "1000.0", "12.5"), position("ETH", "-0.5", "2000.0", "-2.25")] };
const wallet = {
  address: "0x00000000000000000000000000000000000000a1",
  chainId: 1,
  nativeBalance: "1500000000000000000",
  balances: [
    { token: "USDC", balance: "2500000", decimals: 6, usdValue: 2.5 },
    { token: "WETH", balance: "400000000000000000", decimals: 18 },
    { token: "DAI", balance: "0", decimals: 18 },
  ],
};

describe("analyze_my_positions", () => {
  test("ranks positions by the absolute size", async () => {
    const result = await call(analyze, { portfolio });
    expect(result.structuredContent).toEqual({ totalPnl: 10.25, accountValue: 1000, positionCount: 2, topPosition: "ETH", riskScore: 30 });
  });

  test("an account without positions is not an error", async () => {
    const result = await call(analyze, { portfolio: { marginSummary: { accountValue: "5.0" }, assetPositions: [] } });
    expect(result.structuredContent).toEqual({ totalPnl: 0, accountValue: 5, positionCount: 0, topPosition: "None", riskScore: 0 });
  });

  test("missing members count as zero", async () => {
    const result = await call(analyze, { portfolio: { assetPositions: [{}, { position: { coin: "SOL" } }] } });
    expect(result.structuredContent).toMatchObject({ totalPnl: 0, positionCount: 1, topPosition: "SOL" });
  });
});

test("get_portfolio_snapshot writes exact amounts and recommends itself", async () => {
  const result = await call(snapshot, { portfolio: wallet });
  expect(result.structuredContent).toMatchObject({ tokens: [{ token: "USDC", amount: "2.5" }, { token: "WETH", amount: "0.4" }, { token: "DAI", amount: "0" }] });
  expect(snapshot._meta.rateLimit).toMatchObject({ supportsBulk: true, recommendedBatchTools: ["get_portfolio_snapshot"] });
});

test("cross_platform_analysis combines both kinds of context", async () => {
  const result = await call(cross, { hyperliquidPortfolio: portfolio, walletPortfolio: wallet });
  expect(result.structuredContent).toEqual({ tradedUsd: 3000, accountUsd: 1000, walletUsd: 2.5, unpriced: ["WETH"], hedged: ["ETH"] });
});
