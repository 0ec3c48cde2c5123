import assert from "node:assert/strict";
import { test } from "node:test";
import { estimated } from "../src/lib/forecast.ts";

const HOUR = 3_600_000;
const times = (name: string, count: number, every: number) => Array.from({ length: count }, (_, at) => ({ name, at: new Date((at + 1) * every).toISOString() }));

test("the load of a list that is complete is counted", () => {
  const found = estimated(times("hourly", 3, HOUR), true, 0, 4 * HOUR, 4);
  assert.deepEqual(found.load, [0, 1, 1, 1]);
  assert.equal(found.cuts.size, 0);
});

test("a schedule whose list is cut goes on at its rate, and others are as listed", () => {
  const often = times("often", 500, 7_200);
  const found = estimated([...often, ...times("hourly", 3, HOUR)], false, 0, 4 * HOUR, 4);
  assert.deepEqual([...found.cuts], [["often", HOUR]]);
  assert.deepEqual(found.load.map(Math.round), [499, 502, 501, 501]);
});
