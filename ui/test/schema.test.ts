import assert from "node:assert/strict";
import { test } from "node:test";
import { misfits, shortOf } from "../src/lib/schema.ts";

const SCHEMA = {
  type: "object",
  properties: { amount: { type: "integer" }, card: { type: "string" }, lines: { type: "array", items: { type: "string" } } },
  required: ["amount"],
  additionalProperties: false,
};

test("what does not fit is named with its path", () => {
  assert.deepEqual(misfits({ amount: 1, card: "4242", lines: ["a"] }, SCHEMA), []);
  assert.deepEqual(misfits({ amount: "1", lines: ["a", 2], cart: 1 }, SCHEMA), [
    "payload.amount: integer is expected",
    "payload.lines[1]: string is expected",
    "payload.cart is not known",
  ]);
  assert.deepEqual(misfits({}, SCHEMA), ["payload.amount is missing"]);
  assert.deepEqual(misfits([], SCHEMA), ["payload: object is expected"]);
});

test("what is no JSON yet, or said in other words, is not checked", () => {
  assert.deepEqual(misfits(undefined, SCHEMA), []);
  assert.deepEqual(misfits(5, { anyOf: [{ type: "string" }] }), []);
});

test("a schema is shown in short", () => {
  assert.equal(shortOf(SCHEMA), "amount: integer, card: string (optional), lines: array (optional)");
});
