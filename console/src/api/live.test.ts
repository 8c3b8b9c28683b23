import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { followCalls } from "./live";

const refused = (status: number, body: object) => new Response(JSON.stringify(body), { status });
const streamOf = (...events: string[]) => new Response(events.join(""), { status: 200 });
const call = (id: string) => `event: call\ndata: {"id":"${id}"}\n\n`;

/** A stream that stays open and sends no data until its request is aborted. */
function silent(signal: AbortSignal): Response {
  const body = new ReadableStream({ start: (controller) => signal.addEventListener("abort", () => controller.error(signal.reason)) });
  return new Response(body, { status: 200 });
}

/** Runs followCalls against the given responses, and records the events and requests. */
async function follow(answers: (Response | Error | typeof silent)[]): Promise<{ events: string[]; requests: string[]; stop: () => void }> {
  const events: string[] = [];
  const asked: string[] = [];
  vi.stubGlobal("fetch", (address: string, { signal }: { signal: AbortSignal }) => {
    asked.push(address);
    const next = answers.shift();
    if (!next) return new Promise(() => undefined);
    if (next instanceof Error) return Promise.reject(next);
    return Promise.resolve(typeof next === "function" ? next(signal) : next);
  });
  const stop = followCalls({ tool: "x", failed: true }, {
    call: ({ id }) => events.push(id),
    begin: ({ id }) => events.push(`begin ${id}`),
    lost: (count) => events.push(`lost ${count}`),
    state: (state, error) => events.push(error ? `${state}: ${error.message}` : state),
  });
  await vi.advanceTimersByTimeAsync(30_000);
  return { events, requests: asked, stop };
}

describe("followCalls", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it("handles all events and sends its filter", async () => {
    const { events, requests: asked, stop } = await follow([streamOf('event: begin\ndata: {"id":"a"}\n\n', call("a"), 'event: lost\ndata: {"count":3}\n\n', "event: call\ndata: not json\n\n", ": quiet\n\n")]);
    expect(events.slice(0, 5)).toEqual(["connecting", "live", "begin a", "a", "lost 3"]);
    expect(asked[0]).toBe("/api/v1/calls/live?tool=x&failed=true");
    stop();
  });

  it("reconnects when the stream ends or the network fails", async () => {
    const { events, stop } = await follow([streamOf(call("a")), new TypeError("network"), refused(503, { message: "busy", retryAfterMs: 2000 }), streamOf(call("b"))]);
    expect(events.filter((word) => word !== "connecting")).toEqual(["live", "a", "waiting", "waiting", "waiting: busy", "live", "b", "waiting"]);
    stop();
  });

  it("stops when it is refused", async () => {
    const { events, requests: asked } = await follow([refused(403, { message: "not for you" })]);
    expect(events).toEqual(["connecting", "refused: not for you"]);
    expect(asked).toHaveLength(1);
  });

  it("reconnects after a silent period", async () => {
    const { events, stop } = await follow([silent, streamOf(call("a"))]);
    expect(events).toEqual(["connecting", "live"]);
    await vi.advanceTimersByTimeAsync(20_000);
    expect(events.slice(2, 6)).toEqual(["waiting", "connecting", "live", "a"]);
    stop();
  });

  it("reports nothing after it is stopped", async () => {
    const { events, requests: asked, stop } = await follow([streamOf(call("a"))]);
    stop();
    const [before, requests] = [events.length, asked.length];
    await vi.advanceTimersByTimeAsync(120_000);
    expect([events.length, asked.length]).toEqual([before, requests]);
  });
});
