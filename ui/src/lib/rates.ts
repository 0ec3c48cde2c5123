/** Rates from counters: how many jobs were finished per minute between two samples of a growing count. */

import type { History, Tally } from "../api.ts";

export interface Counted {
  at: number;
  completed: number;
  dead: number;
}

const SLICE_MILLISECONDS = 5_000;
const MINUTE = 60_000;

/** Gives a rate for each slice of time that has samples. A count that shrank, after a restart, counts as nothing. */
export function perMinute(samples: readonly Counted[], slice: number = SLICE_MILLISECONDS): Counted[] {
  const rates: Counted[] = [];
  let first = samples[0];
  for (const sample of samples) {
    if (first === undefined) break;
    const span = sample.at - first.at;
    if (span < slice) continue;
    const rate = (name: "completed" | "dead"): number => Math.max(((sample[name] - (first as Counted)[name]) * MINUTE) / span, 0);
    rates.push({ at: sample.at, completed: rate("completed"), dead: rate("dead") });
    first = sample;
  }
  return rates;
}

/** A count for each minute of the history, zero where no bucket is stored. */
export function byMinute(history: History, name: keyof Tally): number[] {
  const step = history.step * 1000;
  const first = Date.parse(history.since);
  const values = new Array<number>(Math.max(Math.ceil((Date.parse(history.until) - first) / step), 1)).fill(0);
  for (const bucket of history.buckets) {
    const index = Math.floor((Date.parse(bucket.at) - first) / step);
    if (index >= 0 && index < values.length) values[index] = bucket[name];
  }
  return values;
}

/** How long after its end a bucket may still grow: every process adds its counts every ten seconds. */
const LATE_MILLISECONDS = 12_000;

/** The same without the last buckets, which are still being filled: they would look like an outage. */
export function byWholeMinute(history: History, name: keyof Tally, now: number): number[] {
  const values = byMinute(history, name);
  const step = history.step * 1000;
  const whole = Math.floor((now - LATE_MILLISECONDS - Date.parse(history.since)) / step);
  // With a clock that is wrong here, only the last bucket is left out.
  return values.slice(0, whole >= 1 && whole < values.length ? whole : Math.max(values.length - 1, 1));
}
