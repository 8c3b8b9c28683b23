// The state of the live call list: running calls, finished calls, and counts per second. Its size
// is bounded.
import type { CallBegin, CallRow, LiveCall } from "../../api/types";

/** A row in the list: a finished or running call. */
export type Row = CallRow & { running?: true };

export const maxRows = 1000; // rows in the list
export const chartSeconds = 60; // seconds in the chart

type Second = { at: number; ok: number; errors: number };

export type Filter = { code?: string | undefined; session?: string | undefined; parent?: string | undefined };

/** Collects stream events. Rows are keyed by call ID. */
export class Stream {
  readonly #filter: Filter;
  readonly #rows = new Map<string, Row>(); // oldest first
  readonly #seconds = new Map<number, Second>();
  #lost = 0;
  #newCalls = 0;
  #version = 0;
  #replayed = false; // whether the initial replay is complete

  constructor(filter: Filter) {
    this.#filter = filter;
  }

  /** Drops running calls, because their end may have been missed while disconnected. */
  connected() {
    this.#dropRunning();
    this.#replayed = false;
  }

  /** Marks the end of the replay. Later calls count as new. */
  caughtUp() {
    this.#replayed = true;
  }

  begin(call: CallBegin) {
    if (this.#filter.code || this.#filter.session || !this.#matches(call) || this.#rows.has(call.id)) return;
    this.#put({ ...call, elapsedNs: 0, generation: 0, code: "", priceUsd: "0", argsBytes: 0, resultBytes: 0, running: true });
  }

  end({ result: _, ...call }: LiveCall, now: number) {
    if (!this.#matches(call)) return;
    const known = this.#rows.get(call.id);
    if (known && !known.running) return;
    this.#put(call);
    this.#count(call.code === "OK", Date.parse(call.at) + call.elapsedNs / 1e6, now);
  }

  addLost(count: number) {
    this.#lost += count;
    this.#dropRunning();
  }

  get lost(): number {
    return this.#lost;
  }

  /** The number of new calls since the replay. */
  get newCalls(): number {
    return this.#newCalls;
  }

  /** Incremented whenever the rows change. */
  get version(): number {
    return this.#version;
  }

  /** The given rows in their current state; new rows are not added. */
  refresh(rows: Row[]): Row[] {
    return rows.map((row) => this.#rows.get(row.id) ?? row).filter((row) => !row.running || this.#rows.has(row.id));
  }

  /** The rows, unordered. */
  rows(): Row[] {
    return [...this.#rows.values()];
  }

  /** Calls per second for the chart, oldest first. */
  perSecond(now: number): Second[] {
    const last = Math.floor(now / 1000);
    return Array.from({ length: chartSeconds }, (_, i) => {
      const at = last - chartSeconds + i; // excludes the current second
      return this.#seconds.get(at) ?? { at, ok: 0, errors: 0 };
    });
  }

  #matches(call: Partial<CallRow>): boolean {
    const { code, session, parent } = this.#filter;
    return (!code || call.code === undefined || call.code === code) && (!session || call.session === session) && (!parent || call.parent === parent);
  }

  #put(row: Row) {
    if (this.#replayed && !this.#rows.has(row.id)) this.#newCalls++;
    this.#version++;
    this.#rows.set(row.id, row);
    for (const id of this.#rows.keys()) {
      if (this.#rows.size <= maxRows) break;
      this.#rows.delete(id);
    }
  }

  #dropRunning() {
    this.#version++;
    for (const [id, row] of this.#rows) if (row.running) this.#rows.delete(id);
  }

  /** Counts a call in the second it ended, even if that was before the page was opened. */
  #count(ok: boolean, ended: number, now: number) {
    const oldest = Math.floor(now / 1000) - chartSeconds;
    const at = Math.min(Math.floor((Number.isNaN(ended) ? now : ended) / 1000), Math.floor(now / 1000)); // tolerates clock skew
    if (at < oldest) return;
    const second = this.#seconds.get(at) ?? { at, ok: 0, errors: 0 };
    if (ok) second.ok++;
    else second.errors++;
    this.#seconds.set(at, second);
    for (const each of this.#seconds.keys()) if (each < oldest) this.#seconds.delete(each);
  }
}

/** Merges recorded and live calls, newest first, with duplicates removed. */
export function merge(history: CallRow[], live: Row[]): Row[] {
  const byId = new Map<string, Row>(history.map((row) => [row.id, row]));
  for (const row of live) if (!(row.running && byId.has(row.id))) byId.set(row.id, row);
  return [...byId.values()]
    .map((row) => ({ row, at: micros(row.at) }))
    .sort((a, b) => b.at - a.at || (a.row.id < b.row.id ? 1 : -1))
    .slice(0, maxRows)
    .map(({ row }) => row);
}

/** Timestamps have varying numbers of decimals, so they cannot be compared as strings. */
function micros(at: string): number {
  const fraction = /\.(\d+)/.exec(at)?.[1] ?? "";
  return Math.floor(Date.parse(at) / 1000) * 1e6 + Number(fraction.padEnd(6, "0").slice(0, 6));
}
