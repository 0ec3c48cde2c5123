import assert from "node:assert/strict";
import { test } from "node:test";
import { criticalPath, drawn } from "../src/lib/graph.ts";

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
