/** Charts in SVG: sparkline, attempts of a job, and the fire times of the next day. */

import type { Attempt, Forecast, Job } from "../api.ts";
import { estimated } from "../lib/forecast.ts";
import { zone } from "../lib/preferences.ts";
import { clock, duration, hourAndMinute } from "../lib/time.ts";
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

const HOUR = 3_600_000;

/** Whole hours of the chosen zone, every fourth one; on a narrow screen every eighth, so that the labels stay apart. */
function wholeHours(from: number, span: number): number[] {
  const offset = zone.value === "utc" ? 0 : new Date(from).getTimezoneOffset() * 60_000;
  const step = (window.innerWidth < NARROW_PIXELS ? 8 : 4) * HOUR;
  const first = Math.ceil((from - offset) / step) * step + offset;
  return Array.from({ length: Math.ceil(span / step) }, (_, index) => first + index * step).filter((at) => at <= from + span);
}

const KINDS = { succeed: 1, fail: 1, exhaust: 1, expire: 1, lapse: 1 };
export const MOST_ROWS = 20;
const SLICES = 48;
const NARROW_PIXELS = 860;

/** When each schedule fires within the next hours, and how many fire together. */
export function Timeline({ forecast, hours, from }: { forecast: Forecast; hours: number; from: number }) {
  const span = hours * HOUR;
  /** Percent of the width that the names take. */
  const nameShare = window.innerWidth < NARROW_PIXELS ? 36 : 16;
  const nameLength = nameShare === 16 ? 24 : 15;
  const names = [...new Set(forecast.items.map((item) => item.name))];
  const shown = names.slice(0, MOST_ROWS);
  const share = (at: string): number => (new Date(at).getTime() - from) / span;
  const x = (part: number): string => `${nameShare + Math.min(Math.max(part, 0), 1) * (99 - nameShare)}%`;
  const { cuts, load } = estimated(forecast.items, forecast.is_complete, from, span, SLICES);
  const most = Math.max(...load, 1);
  const top = 34;
  const height = top + shown.length * ROW + 22;
  return (
    <svg class="gantt" height={height} width="100%" role="img" aria-label={t.schedulesPage.forecastLabel(forecast.items.length, names.length)}>
      <text x="0" y={22}>
        {t.schedulesPage.load}
      </text>
      {load.map((count, slice) => (
        <rect class="load" x={x(slice / SLICES)} width={`${(99 - nameShare) / SLICES - 0.15}%`} y={top - 8 - (count / most) * 24} height={(count / most) * 24}>
          <title>{`${hourAndMinute(from + (slice / SLICES) * span, zone.value)}: ${cuts.size ? "≈ " : ""}${Math.round(count)}`}</title>
        </rect>
      ))}
      {wholeHours(from, span).map((at) => (
        <>
          <line class="axis" x1={x((at - from) / span)} x2={x((at - from) / span)} y1={top - 6} y2={height - 18} />
          <text x={x((at - from) / span)} y={height - 5} text-anchor={(at - from) / span > 0.95 ? "end" : "middle"}>
            {hourAndMinute(at, zone.value)}
          </text>
        </>
      ))}
      {shown.map((name, row) => (
        <>
          <text class="name" x="0" y={top + row * ROW + 15}>
            {name.length > nameLength ? `${name.slice(0, nameLength - 1)}…` : name}
          </text>
          {cuts.has(name) && (
            <rect class="more" x={x(((cuts.get(name) as number) - from) / span)} width={`${Math.max(1 - ((cuts.get(name) as number) - from) / span, 0) * (99 - nameShare)}%`} y={top + row * ROW + 4} height={14} rx={1}>
              <title>{`${name}: ${t.schedulesPage.forecastGoesOn}`}</title>
            </rect>
          )}
          {forecast.items
            .filter((item) => item.name === name)
            .map((item) => (
              <rect class="tick" x={x(share(item.at))} width="2" y={top + row * ROW + 4} height={14} rx={1}>
                <title>{`${name}: ${hourAndMinute(item.at, zone.value)}`}</title>
              </rect>
            ))}
        </>
      ))}
    </svg>
  );
}
