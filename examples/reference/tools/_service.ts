// The services behind the tools and their limits. To upgrade, change the tier, and the limits of
// all tools change with it.
import { type RateLimit, ToolError } from "toolyard";

const tiers = {
  free: { requestsPerMinute: 30, concurrency: 1 },
  startup: { requestsPerMinute: 300, concurrency: 4 },
};
const tier = tiers.free;

/** limits returns the limits of a tool that makes some requests per call and gets a share of the quota. */
export function limits(requests: number, share: number): RateLimit {
  const perMinute = Math.max(1, Math.floor((tier.requestsPerMinute * share) / requests));
  return {
    maxRequestsPerMinute: perMinute,
    cooldownMs: Math.floor(30_000 / perMinute), // half of the average interval, because bursts are short
    maxConcurrency: tier.concurrency,
  };
}

export const chains: Record<number, { name: string; url: string }> = {
  1: { name: "Ethereum", url: "https://ethereum-rpc.publicnode.com" },
  137: { name: "Polygon", url: "https://polygon-bor-rpc.publicnode.com" },
  8453: { name: "Base", url: "https://base-rpc.publicnode.com" },
};

/** post sends JSON. Errors tell the caller whether the same call can be repeated. */
export async function post(url: string, body: unknown): Promise<unknown> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(5_000),
  });
  if (response.status === 429) {
    const seconds = Number(response.headers.get("retry-after") ?? 10);
    throw new ToolError("The service is busy.", { code: "RATE_LIMITED", retryAfterMs: 1000 * seconds });
  }
  if (!response.ok) throw new ToolError(`The service responded with status ${response.status}.`, { code: "UNAVAILABLE" });
  return response.json();
}

/** gasPrice returns the current price of gas on a chain, in gwei. */
export async function gasPrice(chainId: number): Promise<number> {
  const chain = chains[chainId];
  if (!chain) {
    const known = Object.entries(chains).map(([id, { name }]) => `${id} (${name})`);
    throw new ToolError(`There is no data about chain ${chainId}. Use ${known.join(", ")}.`, {
      code: "VALIDATION_ERROR",
      issues: [{ path: "chainId", message: "is unknown" }],
    });
  }
  const answer = (await post(chain.url, { jsonrpc: "2.0", id: 1, method: "eth_gasPrice", params: [] })) as { result?: string };
  if (!/^0x[0-9a-f]+$/i.test(answer.result ?? "")) throw new ToolError("The service sent no gas price.", { code: "UNAVAILABLE" });
  return Number((Number(BigInt(answer.result ?? "0")) / 1e9).toPrecision(6));
}
