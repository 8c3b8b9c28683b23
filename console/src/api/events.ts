/** One event in a text/event-stream. */
export type ServerSent = { event: string; data: string };

const maxEventLength = 4 << 20; // in characters; longer events are dropped

/**
 * An incremental parser for text/event-stream: feed returns the events completed by a chunk.
 * Chunks may be split anywhere, even inside a CRLF.
 */
export class EventParser {
  #line = "";
  #event = "";
  #data: string[] = [];
  #size = 0;
  #afterReturn = false;

  feed(text: string): ServerSent[] {
    const events: ServerSent[] = [];
    let rest = text;
    if (this.#afterReturn && rest.startsWith("\n")) rest = rest.slice(1);
    if (text !== "") this.#afterReturn = rest.endsWith("\r");
    const lines = rest.split(/\r\n|\r|\n/);
    const last = lines.pop() ?? "";
    for (const line of lines) {
      this.#take(this.#line + line, events);
      this.#line = "";
    }
    this.#line = (this.#line + last).slice(0, maxEventLength);
    return events;
  }

  #take(line: string, events: ServerSent[]) {
    if (line === "") {
      if (this.#data.length > 0 && this.#size <= maxEventLength) {
        events.push({ event: this.#event || "message", data: this.#data.join("\n") });
      }
      this.#event = "";
      this.#data = [];
      this.#size = 0;
      return;
    }
    if (line.startsWith(":")) return;
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") this.#event = value;
    if (name === "data") {
      this.#size += value.length;
      if (this.#size <= maxEventLength) this.#data.push(value);
    }
  }
}
