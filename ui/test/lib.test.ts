import assert from "node:assert/strict";
import { test } from "node:test";
import { cronWords } from "../src/lib/cron.ts";
import { columnsOf, columnsText, USUAL } from "../src/lib/columns.ts";
import { filterOf, isViewOf, lastWord, queryOf, readSearch, searchOf, viewOf } from "../src/lib/filter.ts";
import { colouredJson, parseJson, prettyJson, RawJson, writeJson } from "../src/lib/json.ts";
import { byMinute, byWholeMinute, perMinute } from "../src/lib/rates.ts";
import { curl, jobSnippets, listSnippets, shellQuoted } from "../src/lib/snippets.ts";
import { absolute, duration, fromInput, nextZone, relative } from "../src/lib/time.ts";

test("large integers stay as they were written", () => {
  const text = '{"id":"a","payload":{"n": 12345678901234567890, "f": 1.10},"items":[{"result":[1e400,"}"]}]}';
  const found = parseJson(text, ["payload", "result"]) as { payload: RawJson; items: { result: RawJson }[] };
  assert.equal(found.payload.text, '{"n": 12345678901234567890, "f": 1.10}');
  assert.equal(found.items[0]?.result.text, '[1e400,"}"]');
  assert.equal(writeJson({ a: found.payload, b: undefined, c: [null, "x"] }),
    '{"a":{"n": 12345678901234567890, "f": 1.10},"c":[null,"x"]}');
});

test("raw fields may hold anything", () => {
  for (const value of ['"a \\" } \\\\"', "null", "-0", "[]", "{}", '{"a":[{"b":"]"}]}', "12345678901234567890"]) {
    const found = parseJson(` { "payload" : ${value} , "b" : [ ] } `, ["payload"]) as { payload: RawJson };
    assert.equal(found.payload.text, value);
  }
  assert.throws(() => parseJson('{"payload": {', ["payload"]), SyntaxError);
  assert.throws(() => parseJson('{"a": 1 "b": 2}', ["payload"]), SyntaxError);
});

test("indented JSON has the same tokens", () => {
  assert.equal(prettyJson('{"a":12345678901234567890,"b":[],"c":{"d":[1,"x,{"]}}'),
    '{\n  "a": 12345678901234567890,\n  "b": [],\n  "c": {\n    "d": [\n      1,\n      "x,{"\n    ]\n  }\n}');
  assert.equal(prettyJson("no json"), "no json");
  assert.equal(prettyJson("[[],{}]"), "[\n  [],\n  {}\n]");
  const text = prettyJson('{"a":"b:c","d":[true,null,-1.5e3]}');
  assert.equal(colouredJson(text).map((part) => part.text).join(""), text);
  assert.deepEqual(colouredJson('{"a": 1}').map((part) => part.kind), ["mark", "key", "mark", "number", "mark"]);
});

test("durations use one or two units", () => {
  const rows: [number, string][] = [
    [0, "0 ms"], [420, "420 ms"], [1_500, "1.5 s"], [12_300, "12 s"], [60_000, "1 m"], [200_000, "3 m 20 s"],
    [7_500_000, "2 h 5 m"], [273_600_000, "3 d 4 h"], [-5, "0 ms"],
  ];
  for (const [span, words] of rows) assert.equal(duration(span), words);
});

test("moments are written relative and absolute", () => {
  const now = Date.parse("2026-03-01T12:00:00Z");
  assert.equal(relative("2026-03-01T11:57:00Z", now), "3 m ago");
  assert.equal(relative("2026-03-01T14:05:00Z", now), "in 2 h");
  assert.equal(relative("2026-03-01T11:59:57.600Z", now), "2 s ago");
  assert.equal(relative("2026-03-01T12:00:00.2Z", now), "now");
  assert.equal(absolute("2026-03-01T11:57:00.123456Z", "utc"), "2026-03-01 11:57:00 UTC");
  assert.equal(fromInput("2026-03-01T11:57", "utc").toISOString(), "2026-03-01T11:57:00.000Z");
});

test("cron expressions have words", () => {
  const rows: [string, string | null][] = [
    ["*/5 * * * *", "every 5 minutes"], ["0 3 * * *", "daily at 03:00"], ["0 8 * * 1-5", "weekdays at 08:00"],
    ["30 6,18 * * *", "daily at 06:30, 18:30"], ["0 * * * *", "every hour"], ["15 * * * *", "every hour at :15"],
    ["0 0 1 * *", "monthly, on the 1st at 00:00"], ["0 9 * * mon,thu", "Mondays, Thursdays at 09:00"],
    ["*/10 8-18 * * 1-5", "every 10 minutes from 08:00 to 18:59, weekdays"], ["@hourly", "every hour"],
    ["@every 1h30m", "every 1 h 30 m"], ["*/10 * * * * *", "every 10 seconds"], ["0 0 13 * 5", null],
    ["0 0 29 2 *", null], ["nonsense", null], ["0 12 22 * *", "monthly, on the 22nd at 12:00"],
  ];
  for (const [expression, words] of rows) assert.equal(cronWords(expression), words, expression);
});

test("the search box reads words, ids and searches", () => {
  assert.deepEqual(readSearch("status:dead type:mail").filter, { status: "dead", type: "mail" });
  assert.equal(readSearch("0AJ3K5M7N9PQR").job, "0aj3k5m7n9pqr");
  for (const text of ['status:dead type:"mail" created:<2h', "type:mail*", "-tag:x", "send_email", "colour:red"])
    assert.deepEqual(readSearch(text), { filter: { q: text } });
});

test("the last word of a search is completed", () => {
  assert.deepEqual(lastWord("status:dead ty"), { before: "status:dead ", field: null, value: "ty" });
  assert.deepEqual(lastWord("-type:mail,re"), { before: "-type:mail,", field: "type", value: "re" });
});

test("a filter is written as a search", () => {
  assert.equal(searchOf({ status: "dead,retrying", type: 'a,b "c"', q: "attempts:>1" }), 'status:dead,retrying type:"a","b \\"c\\"" attempts:>1');
  assert.equal(searchOf({}), null);
});

test("a filter survives the way through a URL", () => {
  const filter = { status: "dead,cancelled", type: "a b", q: "created:<2h" };
  assert.deepEqual(filterOf(queryOf(filter)), filter);
});

test("snippets are quoted", () => {
  assert.equal(shellQuoted("a b'c"), "'a b'\\''c'");
  assert.equal(curl("http://h", "POST", "/v1/x", true, '{"a":1}'),
    `curl -sS -X POST -H "Authorization: Bearer $ROTA_TOKEN" -H 'Content-Type: application/json' -d '{"a":1}' http://h/v1/x`);
  assert.equal(listSnippets("http://h", { status: "dead", type: "a b" }, false).cli, "rota jobs list --status dead --type 'a b'");
  assert.equal(listSnippets("http://h", { q: "created:<2h" }, false).cli, "rota jobs list 'created:<2h'");
  assert.equal(jobSnippets("http://h", "x", "retry", false).cli, "rota jobs retry x");
});

test("rates come from growing counts", () => {
  const samples = [
    { at: 0, completed: 0, dead: 0 }, { at: 1_000, completed: 1, dead: 0 }, { at: 6_000, completed: 10, dead: 1 },
    { at: 12_000, completed: 4, dead: 1 },
  ];
  assert.deepEqual(perMinute(samples), [
    { at: 6_000, completed: 100, dead: 10 },
    { at: 12_000, completed: 0, dead: 0 },
  ]);
  assert.deepEqual(perMinute([]), []);
});

test("minutes without a stored bucket count as zero", () => {
  const none = { submitted: 0, started: 0, succeeded: 0, failed: 0, dead: 0, lost: 0 };
  const history = {
    since: "2026-03-01T12:00:00Z",
    until: "2026-03-01T12:03:30Z",
    step: 60,
    buckets: [
      { ...none, at: "2026-03-01T12:01:00Z", succeeded: 7 },
      { ...none, at: "2026-03-01T12:03:00Z", succeeded: 2 },
      { ...none, at: "2026-03-01T13:00:00Z", succeeded: 9 },
    ],
  };
  assert.deepEqual(byMinute(history, "succeeded"), [0, 7, 0, 2]);
});

test("buckets that are still being filled are not drawn", () => {
  const history = {
    since: "2026-01-01T00:00:00Z",
    until: "2026-01-01T00:04:00Z",
    step: 60,
    buckets: [{ at: "2026-01-01T00:01:00Z", succeeded: 7 }],
  } as unknown as Parameters<typeof byMinute>[0];
  const at = (time: string): number => Date.parse(`2026-01-01T00:${time}Z`);
  assert.deepEqual(byWholeMinute(history, "succeeded", at("03:30")), [0, 7, 0]);
  assert.deepEqual(byWholeMinute(history, "succeeded", at("03:05")), [0, 7], "counts of the minute before may still come");
  assert.deepEqual(byWholeMinute(history, "succeeded", at("59:00")), [0, 7, 0], "a wrong clock leaves out the last one only");
});

test("a schedule's times are shown in its own zone, on both sides of a clock change", () => {
  assert.equal(absolute("2026-03-29T00:59:59Z", "schedule", "Europe/Berlin"), "2026-03-29 01:59:59 Europe/Berlin");
  assert.equal(absolute("2026-03-29T01:00:00Z", "schedule", "Europe/Berlin"), "2026-03-29 03:00:00 Europe/Berlin");
  assert.equal(absolute("2026-03-29T22:00:00Z", "schedule", "Europe/Berlin"), "2026-03-30 00:00:00 Europe/Berlin");
  assert.equal(absolute("2026-03-29T01:00:00Z", "utc", "Europe/Berlin"), "2026-03-29 01:00:00 UTC");
  assert.equal(absolute("2026-03-29T01:00:00Z", "schedule"), absolute("2026-03-29T01:00:00Z", "local"), "no schedule, no zone of one");
  assert.equal(absolute("2026-03-29T01:00:00Z", "schedule", "Mars/Olympus"), "2026-03-29 01:00:00 UTC", "a zone that this browser does not know");
  assert.deepEqual([nextZone("local"), nextZone("utc"), nextZone("schedule")], ["utc", "schedule", "local"]);
});

test("columns are read in their own order, and always have the type", () => {
  assert.deepEqual(columnsOf("took,queue,nonsense"), ["type", "queue", "took"]);
  for (const text of [null, "", "nonsense"]) assert.equal(columnsOf(text), null);
  assert.equal(columnsText(["took", "type", "queue"]), "type,queue,took");
  assert.equal(columnsText(USUAL), null);
});

test("a view is the filter, and the columns if it has any", () => {
  const view = viewOf({ status: "dead", tag: "a" }, "type,queue");
  assert.equal(view, "status=dead&tag=a&columns=type,queue");
  assert.ok(isViewOf(view, { tag: "a", status: "dead" }, "type,queue"));
  assert.ok(!isViewOf(view, { tag: "a", status: "dead" }, null));
  assert.ok(!isViewOf(view, { status: "dead" }, "type,queue"));
  assert.ok(isViewOf("status=dead", { status: "dead" }, "type,queue"));
});
