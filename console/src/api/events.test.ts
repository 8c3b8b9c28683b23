import { describe, expect, it } from "vitest";
import { EventParser } from "./events";

const stream = ": hello\r\nevent: call\r\ndata: {\"id\":\r\ndata: 1}\r\n\r\nevent: begin\ndata:{}\n\n\ndata: no name\n\nevent: nothing\n\ndata: last\r\r";
const want = [
  { event: "call", data: '{"id":\n1}' },
  { event: "begin", data: "{}" },
  { event: "message", data: "no name" },
  { event: "message", data: "last" },
];

describe("EventParser", () => {
  it("parses events, comments and all line endings", () => expect(new EventParser().feed(stream)).toEqual(want));

  it("parses the same events for any chunk boundaries", () => {
    for (let size = 1; size < stream.length; size++) {
      const parser = new EventParser();
      const events = [];
      for (let i = 0; i < stream.length; i += size) events.push(...parser.feed(stream.slice(i, i + size)));
      expect(events).toEqual(want);
    }
  });

  it("drops an oversized event and continues", () => {
    const parser = new EventParser();
    const line = `data: ${"x".repeat(1 << 20)}\n`;
    for (let i = 0; i < 6; i++) expect(parser.feed(line)).toEqual([]);
    expect(parser.feed("\ndata: small\n\n")).toEqual([{ event: "message", data: "small" }]);
  });
});
