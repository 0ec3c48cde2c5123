import assert from "node:assert/strict";
import { test } from "node:test";
import { criticalPath, drawn, stretches } from "../src/lib/graph.ts";

test("a node stands behind all nodes that it waits for", () => {
  const found = drawn([
    { name: "join", after: ["left", { node: "right" }] },
    { name: "left", after: ["start"] },
    { name: "right", after: [] },
    { name: "start", after: [] },
  ]);
  assert.deepEqual(found.places.map((one) => one.column), [2, 1, 0, 0]);
  assert.deepEqual(found.edges, [[1, 0], [2, 0], [3, 1]]);
  assert.deepEqual([found.columns, found.rows], [3, 2]);
});

test("a chain of ten thousand nodes is placed", () => {
  const nodes = Array.from({ length: 10_000 }, (_, at) => ({ name: `n${at}`, after: at ? [`n${at - 1}`] : [] }));
  assert.equal(drawn(nodes.reverse()).columns, 10_000);
});

test("the critical path follows what ended last", () => {
  // 0 and 1 come before 2; 2 and 3 before 4; 3 ended long before 2.
  const edges: [number, number][] = [[0, 2], [1, 2], [2, 4], [3, 4]];
  assert.deepEqual(criticalPath(edges, [10, 20, 30, 5, 40]), [1, 2, 4]);
  assert.deepEqual(criticalPath(edges, [10, null, null, 5, null]), [0]);
  assert.deepEqual(criticalPath([], [null]), []);
});

test("a node waits from when it is due and the nodes before it have ended until it starts", () => {
  const time = (second: number | null): string | null => (second === null ? null : new Date(second * 1_000).toISOString());
  const node = (state: string, created: number, due: number, started: number | null, finished: number | null) => ({
    state,
    created_at: time(created),
    run_at: time(due),
    started_at: time(started),
    finished_at: time(finished),
  });
  const nodes = [node("completed", 10, 10, 12, 20), node("running", 10, 10, 25, null), node("pending", 10, 28, null, null), node("blocked", 10, 10, null, null)];
  const found = stretches(nodes, [[0, 1], [1, 3]], 40_000);
  assert.deepEqual(found.rows, [
    { waited: [10_000, 12_000], ran: [12_000, 20_000] },
    { waited: [20_000, 25_000], ran: [25_000, 40_000] },
    { waited: [28_000, 40_000], ran: null },
    { waited: null, ran: null },
  ]);
  assert.deepEqual([found.from, found.to], [10_000, 40_000]);
});
