// When handlers started, and a log of those that may run twice: as in start_times.py, in the same files.
"use strict";
const fs = require("node:fs");
const path = require("node:path");

const folder = process.env.BENCH_FOLDER;
const file = fs.openSync(path.join(folder, "marks"), "r+");
const place = Buffer.alloc(8);
// CLOCK_MONOTONIC in seconds, as Python's time.monotonic().
const now = () => Number(process.hrtime.bigint()) / 1e9;
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// Node cannot map a file; a write to its cache is the next cheapest.
function mark(number) {
  place.writeDoubleLE(now());
  fs.writeSync(file, place, 0, 8, number * 8);
}

function note(what, number) {
  fs.appendFileSync(path.join(folder, "log"), `${what} ${number} ${now().toFixed(6)}\n`);
}

async function nap(number) {
  note("start", number);
  await sleep(1000);
  note("end", number);
}

module.exports = { mark, nap, now, sleep, TEXT: "x".repeat(150) };
