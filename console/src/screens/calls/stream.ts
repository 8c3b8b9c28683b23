// What is known of calls while they are watched: those that run, those that ended, and how
// many ended in each second. All of it is bounded.
import type { CallBegin, CallRow, LiveCall } from "../../api/types";

/** A row of the list: a call, or one that has begun and not ended yet. */
export type Row = CallRow & { running?: true };

export const maxRows = 1000; // rows that are kept
export const chartSeconds = 60; // seconds that the picture shows

type Second = { at: number; ok: number; errors: number };

export type Filter = { code?: string | undefined; session?: string | undefined; parent?: string | undefined };

/** Gathers the events of the stream. Rows are known by their id. */
export class Stream {
  readonly #filter: Filter;
  readonly #rows = new Map<string, Row>(); // the oldest first
  readonly #seconds = new Map<number, Second>();
  #lost = 0;
  #newCalls = 0;
  #version = 0;
  #replayed = false; // the calls from before have come

  constructor(filter: Filter) {
    this.#filter = filter;
  }

  /** Forgets what ran: after a break, nobody says how it ended. */
  connected() {
    this.#dropRunning();
    this.#replayed = false;
  }

  /** From now on, calls are new, and count for the picture. */
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

  /** How many calls were new, without those from before, whatever was kept of them. */
  get newCalls(): number {
    return this.#newCalls;
  }

  /** Another number after each change of the rows. */
  get version(): number {
    return this.#version;
  }

  /** Rows as they are now, without new ones: for a list that must not move. */
  refresh(rows: Row[]): Row[] {
    return rows.map((row) => this.#rows.get(row.id) ?? row).filter((row) => !row.running || this.#rows.has(row.id));
  }

  /** The rows, in no order. */
  rows(): Row[] {
    return [...this.#rows.values()];
  }

  /** Calls that ended in each of the last seconds, the oldest first. */
  perSecond(now: number): Second[] {
    const last = Math.floor(now / 1000);
    return Array.from({ length: chartSeconds }, (_, i) => {
      const at = last - chartSeconds + i; // the second that still runs is left out
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

  /** Counts a call in the second in which it ended, also one from before the page was opened. */
  #count(ok: boolean, ended: number, now: number) {
    const oldest = Math.floor(now / 1000) - chartSeconds;
    const at = Math.min(Math.floor((Number.isNaN(ended) ? now : ended) / 1000), Math.floor(now / 1000)); // clocks differ a little
    if (at < oldest) return;
    const second = this.#seconds.get(at) ?? { at, ok: 0, errors: 0 };
    if (ok) second.ok++;
    else second.errors++;
    this.#seconds.set(at, second);
    for (const each of this.#seconds.keys()) if (each < oldest) this.#seconds.delete(each);
  }
}

/** History and what was seen live as one list, the newest first, each call once. */
export function merge(history: CallRow[], live: Row[]): Row[] {
  const byId = new Map<string, Row>(history.map((row) => [row.id, row]));
  for (const row of live) if (!(row.running && byId.has(row.id))) byId.set(row.id, row);
  return [...byId.values()]
    .map((row) => ({ row, at: micros(row.at) }))
    .sort((a, b) => b.at - a.at || (a.row.id < b.row.id ? 1 : -1))
    .slice(0, maxRows)
    .map(({ row }) => row);
}

/** Times have different numbers of decimals, so that they cannot be compared as texts. */
function micros(at: string): number {
  const fraction = /\.(\d+)/.exec(at)?.[1] ?? "";
  return Math.floor(Date.parse(at) / 1000) * 1e6 + Number(fraction.padEnd(6, "0").slice(0, 6));
}
