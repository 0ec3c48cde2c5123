import assert from "node:assert/strict";
import { test } from "node:test";
import { EventParser } from "../src/lib/sse.ts";

test("events are found however the stream is cut", () => {
  const text = 'id: ab-1\nevent: snapshot\ndata: {"a":1}\n\n: still here\n\nevent: update\r\ndata: x\r\ndata: y\r\n\r\n';
  for (let size = 1; size < text.length; size += 3) {
    const parser = new EventParser();
    const events = [];
    for (let at = 0; at < text.length; at += size) events.push(...parser.push(text.slice(at, at + size)));
    assert.deepEqual(events, [
      { kind: "snapshot", data: '{"a":1}', id: "ab-1" },
      { kind: "update", data: "x\ny", id: null },
    ], `cut by ${size}`);
  }
});
