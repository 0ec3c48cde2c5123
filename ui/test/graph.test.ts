import assert from "node:assert/strict";
import { test } from "node:test";
import { drawn } from "../src/lib/graph.ts";

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
