import assert from "node:assert/strict";
import { test } from "node:test";
import { diffLines, ofLibraries } from "../src/lib/diff.ts";
import { busyAt } from "../src/lib/forecast.ts";

test("only what differs is marked", () => {
  const lines = diffLines("a\nb\nc", "a\nx\nc\nd");
  assert.deepEqual(
    lines.map((line) => [line.kind, line.text]),
    [
      ["same", "a"],
      ["removed", "b"],
      ["added", "x"],
      ["same", "c"],
      ["added", "d"],
    ],
  );
});

test("very long texts are compared as a whole", () => {
  const long = Array.from({ length: 500 }, (_, index) => String(index)).join("\n");
  const lines = diffLines(long, long);
  assert.equal(lines.filter((line) => line.kind === "same").length, 0);
  assert.equal(lines.length, 1_000);
});

test("frames of libraries are told from those of the application", () => {
  const lines = [
    "Traceback (most recent call last):",
    '  File "/app/.venv/lib/python3.11/site-packages/httpx/_client.py", line 1, in send',
    "    raise error",
    '  File "/app/shop/tasks.py", line 2, in charge',
    "    send()",
    "TimeoutError: no answer",
  ];
  assert.deepEqual(ofLibraries(lines), [false, true, true, false, false, false]);
});

test("runs that overlap are counted together, those that follow each other are not", () => {
  const minute = 60_000;
  const runs = [
    { at: 0, seconds: 60 },
    { at: 30_000, seconds: 60 },
    { at: 2 * minute, seconds: 60 },
    { at: 3 * minute, seconds: 60 },
  ];
  assert.deepEqual(busyAt(runs, 0, 4 * minute, 4), [2, 2, 1, 1]);
});

test("a run that began before the span and lasts into it counts", () => {
  assert.deepEqual(busyAt([{ at: -30_000, seconds: 90 }], 0, 120_000, 2), [1, 1]);
});
