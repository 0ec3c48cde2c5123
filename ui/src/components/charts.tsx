/** Charts in SVG: sparkline, and attempts of a job. */

import type { Attempt, Job } from "../api.ts";
import { zone } from "../lib/preferences.ts";
import { clock, duration } from "../lib/time.ts";
import { now } from "../live.ts";
import { t } from "../strings.ts";

/** A line of the last values, without axes; the number beside it says what it means. */
export function Sparkline({ values }: { values: readonly number[] }) {
  if (values.length < 2) return null;
  const low = Math.min(...values);
  const span = Math.max(...values) - low || 1;
  const points = values.map((value, index) => `${((index / (values.length - 1)) * 100).toFixed(1)} ${(24 - ((value - low) / span) * 22).toFixed(1)}`);
  return (
    <svg class="spark" viewBox="0 0 100 26" preserveAspectRatio="none" aria-hidden="true">
      <path d={`M${points.join("L")}`} />
    </svg>
  );
}

const ROW = 24;

interface Bar {
  from: number;
  to: number;
  kind: string;
  title: string;
}

/** The attempts of a job over time: waiting, running, delays before retries. The table below it says the same. */
export function Gantt({ job, attempts }: { job: Job; attempts: readonly Attempt[] }) {
  const moment = (text: string): number => new Date(text).getTime();
  const end = attempts.reduce((last, one) => Math.max(last, one.ended_at ? moment(one.ended_at) : now.value), moment(job.created_at) + 1);
  const first = attempts[0];
  // A job that waited far longer than it ran would be a single thin line: show at most as much waiting as work.
  const work = first ? end - moment(first.started_at) : 0;
  const start = Math.max(moment(job.created_at), first ? moment(first.started_at) - Math.max(work, 200) : 0);
  const span = Math.max(end - start, 20);
  const x = (at: number): string => `${Math.min((Math.max(at - start, 0) / span) * 100, 99.4)}%`;
  const wide = (from: number, to: number): string => `${Math.max(((to - Math.max(from, start)) / span) * 100, 0.4)}%`;
  const rows = attempts.map((one, index) => {
    const before = index === 0 ? moment(job.created_at) : moment(attempts[index - 1]?.ended_at ?? one.started_at);
    const from = moment(one.started_at);
    const to = one.ended_at ? moment(one.ended_at) : now.value;
    const outcome = one.event === null ? t.job.running : (t.job.outcomes[one.event] ?? one.event);
    const wait: Bar = { from: before, to: from, kind: "wait", title: `${index === 0 ? t.job.waited : t.job.backoff}: ${duration(from - before)}` };
    const kind = one.event === null ? "run" : one.event in KINDS ? one.event : "other";
    return [wait, { from, to, kind, title: `${t.job.attempt} ${index + 1}: ${outcome}, ${duration(to - from)}, ${one.worker_id}` }];
  });
  const height = rows.length * ROW + 20;
  return (
    <svg class="gantt" height={height} width="100%" role="img" aria-label={t.job.timelineLabel(attempts.length)}>
      {[0, 25, 50, 75, 100].map((share) => (
        <>
          <line class="axis" x1={`${share}%`} x2={`${share}%`} y1={0} y2={height - 18} />
          <text class={share % 50 ? "narrow-hide" : ""} x={`${share}%`} y={height - 5} text-anchor={share === 0 ? "start" : share === 100 ? "end" : "middle"}>
            {share === 0 ? clock(start + (span * share) / 100, zone.value) : `+${duration((span * share) / 100)}`}
          </text>
        </>
      ))}
      {rows.map((bars, row) =>
        bars.map((bar) => (
          <rect class={`${bar.kind} ${bar.kind === "wait" ? "" : "bar"}`} x={x(bar.from)} width={wide(bar.from, bar.to)} y={row * ROW + (bar.kind === "wait" ? 10 : 4)} height={bar.kind === "wait" ? 4 : 16} rx={2}>
            <title>{bar.title}</title>
          </rect>
        )),
      )}
    </svg>
  );
}

const KINDS = { succeed: 1, fail: 1, exhaust: 1, expire: 1, lapse: 1 };
