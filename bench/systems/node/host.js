// The process in which a Node system's client lives: the verbs of host.py. `node host.js SYSTEM work ROLE` is a worker.
"use strict";
const readline = require("node:readline");
const { now, sleep } = require("./start_times.js");

const BULK = 1000;
const [script, doing, role] = process.argv.slice(2);
const system = require(`./${script}`);

const verbs = {
  async describe() {
    const { version } = require(`${system.name}/package.json`);
    const { keeps, loses } = system;
    const can = { can_submit_many: true, can_submit_at: true, is_shared: false };
    return { version: `${system.name} ${version}, Node ${process.version}`, keeps, loses, ...can };
  },
  async commands({ role }) {
    const many = role === "crash" ? 1 : Number(process.env.BENCH_PROCESSES);
    const workers = role === "alone" ? [] : Array(many).fill([process.execPath, __filename, script, "work", role]);
    return { workers, services: [] };
  },
  prepare: () => system.prepare(),
  open: () => system.open(),
  close: () => system.close(),
  finished: () => system.finished(),
  async one_by_one({ first, count }) {
    const begun = now();
    for (let number = first; number < first + count; number++) await system.submit(number);
    return now() - begun;
  },
  async in_bulk({ first, count }) {
    const begun = now();
    for (let start = first; start < first + count; start += BULK) {
      const some = Math.min(BULK, first + count - start);
      await system.submitMany(Array.from({ length: some }, (_, offset) => start + offset));
    }
    return now() - begun;
  },
  async spaced({ first, count, gap }) {
    const times = [];
    let due = now();
    for (let number = first; number < first + count; number++) {
      await sleep(Math.max(0, (due - now()) * 1000));
      due += gap;
      times.push(now());
      await system.submit(number);
    }
    return times;
  },
  async at({ first, whens }) {
    for (const [offset, when] of whens.entries()) await system.submitAt(first + offset, when);
  },
  async sleeping({ first, count }) {
    for (let number = first; number < first + count; number++) await system.submitSleeping(number);
  },
};

async function serve() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const wish = JSON.parse(line);
    let said;
    try {
      said = { answer: (await verbs[wish.verb](wish.with)) ?? null };
    } catch (error) {
      said = { error: error.stack };
    }
    process.stdout.write(`${JSON.stringify(said)}\n`);
  }
  process.exit(0);
}

(doing === "work" ? system.work(role) : serve()).catch((error) => {
  console.error(error);
  process.exit(1);
});
