// BullMQ on Redis; jobs that have ended are kept, which is its default.
"use strict";
const { Queue, Worker } = require("bullmq");
const { mark, nap, TEXT } = require("./start_times.js");

const place = new URL(process.env.BENCH_STORE);
const connection = { host: place.hostname, port: Number(place.port), maxRetriesPerRequest: null };
let queue;

module.exports = {
  name: "bullmq",
  keeps: "the job with payload and result",
  loses: "acknowledged jobs since the last snapshot; a killed worker's jobs run again after a minute",
  async prepare() {},
  async open() {
    queue = new Queue("bench", { connection });
    await queue.waitUntilReady();
  },
  close: () => queue.close(),
  submit: (number) => queue.add("touch", { number, text: TEXT }),
  submitMany: (numbers) => queue.addBulk(numbers.map((number) => ({ name: "touch", data: { number, text: TEXT } }))),
  submitAt: (number, when) =>
    queue.add("touch", { number, text: TEXT }, { delay: Math.max(0, when * 1000 - Date.now()) }),
  submitSleeping: (number) => queue.add("nap", { number }),
  finished: () => queue.getCompletedCount(),
  async work(role) {
    const worker = new Worker(
      "bench",
      async (job) => {
        if (job.name === "nap") await nap(job.data.number);
        else mark(job.data.number);
        return 1;
      },
      { connection, concurrency: role === "crash" ? 20 : 100 },
    );
    worker.on("error", () => {});
  },
};
