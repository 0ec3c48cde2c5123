// graphile-worker on PostgreSQL, with its local queue and batched completion: set for speed, not its defaults.
"use strict";
const { Logger, makeWorkerUtils, run } = require("graphile-worker");
const { Pool } = require("pg");
const { mark, nap, TEXT } = require("./start_times.js");

const connectionString = process.env.BENCH_STORE;
const logger = new Logger(() => () => {});
let utilities;
let pool;

module.exports = {
  name: "graphile-worker",
  keeps: "nothing: a job that has ended is deleted",
  loses: "nothing of what was acknowledged; a killed worker's jobs are locked for four hours",
  async prepare() {
    utilities = await makeWorkerUtils({ connectionString, logger });
    await utilities.migrate();
    await utilities.release();
  },
  async open() {
    pool = new Pool({ connectionString, max: 4 });
    // The server ends its connections when a database is dropped.
    pool.on("error", () => {});
    utilities = await makeWorkerUtils({ pgPool: pool, logger });
  },
  async close() {
    await utilities.release();
    await pool.end();
  },
  submit: (number) => utilities.addJob("touch", { number, text: TEXT }),
  submitMany: (numbers) =>
    utilities.addJobs(numbers.map((number) => ({ identifier: "touch", payload: { number, text: TEXT } }))),
  submitAt: (number, when) => utilities.addJob("touch", { number, text: TEXT }, { runAt: new Date(when * 1000) }),
  submitSleeping: (number) => utilities.addJob("nap", { number }),
  // A job that has ended is gone: all have ended when none is left.
  async finished() {
    const { rows } = await pool.query("SELECT count(*)::int AS left FROM graphile_worker._private_jobs");
    return rows[0].left === 0 ? Number.MAX_SAFE_INTEGER : 0;
  },
  async work(role) {
    const isCrash = role === "crash";
    const batched = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
    const size = { concurrentJobs: isCrash ? 20 : 24, maxPoolSize: isCrash ? 21 : 25 };
    const runner = await run({
      preset: { worker: { connectionString, ...size, ...(isCrash ? {} : batched) } },
      logger,
      taskList: {
        touch: async ({ number }) => mark(number),
        nap: async ({ number }) => nap(number),
      },
    });
    await runner.promise;
  },
};
