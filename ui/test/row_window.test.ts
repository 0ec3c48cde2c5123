import assert from "node:assert/strict";
import { test } from "node:test";
import { windowAt } from "../src/lib/row_window.ts";

test("of a long table the rows near the screen are drawn, and the rest is room of the same height", () => {
  for (const [top, screen] of [[300, 900], [-41 * 5_000, 900], [-41 * 9_990, 900], [-41 * 20_000, 900]] as const) {
    const { start, end, above, below } = windowAt(10_000, top, screen);
    assert.ok(end - start <= 160, `${end - start} rows`);
    assert.equal(above + below + (end - start) * 41, 10_000 * 41);
    const first = Math.min(Math.max(Math.floor(-top / 41), 0), 9_999);
    assert.ok(start <= first && first < end, `row ${first} of ${start} to ${end}`);
    assert.ok(end >= Math.min(first + Math.ceil(screen / 41), 10_000));
  }
});

test("the window moves in steps, so that most of a scroll draws nothing", () => {
  const starts = new Set(Array.from({ length: 100 }, (_, row) => windowAt(10_000, -41 * (2_000 + row), 900).start));
  assert.ok(starts.size <= 6);
});
