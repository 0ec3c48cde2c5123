/** What schedules did and will do: past runs with their outcome, fire times to come with the time they will take, and how many run at once. */

import type { Forecast, RecentRun, RecentRuns } from "../api.ts";
import { busyAt, estimated, type Run } from "../lib/forecast.ts";
import { zone } from "../lib/preferences.ts";
import { axisTime, duration, hourAndMinute } from "../lib/time.ts";
import { t } from "../strings.ts";
import { toneOf, wordsOf } from "./run_strip.tsx";

export const MOST_ROWS = 20;
const HOUR = 3_600_000;
const ROW = 24;
const SLICES = 48;
const NARROW_PIXELS = 860;
/** The share of the span that lies in the past. */
export const PAST_SHARE = 0.25;

interface Props {
  forecast: Forecast;
  recent: readonly RecentRuns[];
  /** Of the future. */
  hours: number;
  now: number;
}

export function Timeline({ forecast, recent, hours, now }: Props) {
  const future = hours * HOUR;
  const past = (future * PAST_SHARE) / (1 - PAST_SHARE);
  const from = now - past;
  const span = past + future;
  const isNarrow = window.innerWidth < NARROW_PIXELS;
  /** Percent of the width that the names take. */
  const nameShare = isNarrow ? 36 : 16;
  const nameLength = isNarrow ? 15 : 24;
  const until = now + future;
  const items = forecast.items.filter((item) => new Date(item.at).getTime() <= until);
  const before = new Map(recent.map((one) => [one.name, one.runs.filter((run) => new Date(run.fire_time).getTime() >= from)]));
  const usual = new Map(recent.map((one) => [one.name, median(one.runs)]));
  const names = [...new Set([...items.map((item) => item.name), ...[...before].filter(([, runs]) => runs.length > 0).map(([name]) => name)])];
  const shown = names.slice(0, MOST_ROWS);
  const x = (at: number): number => nameShare + Math.min(Math.max((at - from) / span, 0), 1) * (99 - nameShare);
  const { cuts } = estimated(items, forecast.is_complete, now, future, SLICES);
  const runs: Run[] = [
    ...items.map((item) => ({ at: new Date(item.at).getTime(), seconds: usual.get(item.name) ?? 1 })),
    ...[...before.values()].flat().filter((run) => run.state !== null).map((run) => ({ at: new Date(run.fire_time).getTime(), seconds: run.duration ?? 1 })),
  ]; // prettier-ignore
  const load = busyAt(runs, from, span, SLICES).map((count, slice) => {
    // Of schedules that fire often not all fire times are listed.
    const begin = from + (slice / SLICES) * span;
    const unlisted = [...cuts].filter(([, cut]) => begin >= cut).map(([name]) => overlapping(name, items, usual.get(name) ?? 0));
    return count + unlisted.reduce((sum, one) => sum + one, 0);
  });
  const most = Math.max(...load, 1);
  /** The most that is to come. */
  const first = Math.floor(SLICES * PAST_SHARE);
  const peak = Math.max(...load.slice(first), 0);
  const top = 34;
  const height = top + shown.length * ROW + 22;
  return (
    <>
      <svg class="gantt timeline" height={height} width="100%" role="img" aria-label={t.schedulesPage.forecastLabel(items.length, names.length, hours)}>
        <text x="0" y={22}>
          {t.schedulesPage.load}
        </text>
        {load.map((count, slice) => (
          <rect key={slice} class={count === most && most > 1 ? "load peak" : "load"} x={`${x(from + (slice / SLICES) * span)}%`} width={`${(99 - nameShare) / SLICES - 0.15}%`} y={top - 8 - (count / most) * 24} height={(count / most) * 24}>
            <title>{`${hourAndMinute(from + (slice / SLICES) * span, zone.value)}: ${t.schedulesPage.atOnce(count)}`}</title>
          </rect>
        ))}
        {ticks(from, span, isNarrow).map((at) => (
          <g key={at}>
            <line class="axis" x1={`${x(at)}%`} x2={`${x(at)}%`} y1={top - 6} y2={height - 18} />
            <text x={`${x(at)}%`} y={height - 5} text-anchor={(at - from) / span > 0.95 ? "end" : "middle"}>
              {hours > 48 ? axisTime(at, 3_600, zone.value) : hourAndMinute(at, zone.value)}
            </text>
          </g>
        ))}
        {shown.map((name, row) => {
          const y = top + row * ROW + 4;
          const cut = cuts.get(name);
          return (
            <g key={name}>
              <text class="name" x="0" y={y + 11}>
                {name.length > nameLength ? `${name.slice(0, nameLength - 1)}…` : name}
              </text>
              {(before.get(name) ?? []).map((run) => (
                <Bar key={run.fire_time} kind={`past run-${toneOf(run)}`} at={new Date(run.fire_time).getTime()} seconds={run.duration ?? 0} x={x} y={y} title={`${name}: ${wordsOf(run)}`} />
              ))}
              {cut !== undefined && (
                <rect class="more" x={`${x(now)}%`} width={`${Math.max(x(until) - x(now), 0)}%`} y={y} height={14} rx={1}>
                  <title>{`${name}: ${t.schedulesPage.forecastGoesOn}`}</title>
                </rect>
              )}
              {cut === undefined && items
                .filter((item) => item.name === name)
                .map((item) => (
                  <Bar key={item.at} kind="tick" at={new Date(item.at).getTime()} seconds={usual.get(name) ?? 0} x={x} y={y} title={`${name}: ${hourAndMinute(item.at, zone.value)}${usual.get(name) ? `, ${t.schedulesPage.takes(duration((usual.get(name) as number) * 1_000))}` : ""}`} />
                ))}
            </g>
          );
        })}
        <line class="now" x1={`${x(now)}%`} x2={`${x(now)}%`} y1={4} y2={height - 18} />
        <text class="now-text" x={`${x(now)}%`} y={height - 5} text-anchor="middle">
          {t.schedulesPage.now}
        </text>
      </svg>
      {peak > 2 && <p class="faint">{t.schedulesPage.peak(peak, hourAndMinute(from + (load.indexOf(peak, first) / SLICES) * span, zone.value))}</p>}
      {names.length > MOST_ROWS && <p class="faint">{t.schedulesPage.forecastMore(names.length - MOST_ROWS)}</p>}
    </>
  );
}

function Bar({ kind, at, seconds, x, y, title }: { kind: string; at: number; seconds: number; x: (at: number) => number; y: number; title: string }) {
  const left = x(at);
  return (
    <rect class={kind} x={`${left}%`} width={`${Math.max(x(at + seconds * 1_000) - left, 0.18)}%`} y={y} height={14} rx={1}>
      <title>{title}</title>
    </rect>
  );
}

/** How many runs of a schedule overlap at its usual pace; one if they do not. */
function overlapping(name: string, items: Forecast["items"], seconds: number): number {
  const times = items.filter((item) => item.name === name).map((item) => new Date(item.at).getTime());
  const pause = times.length > 1 ? ((times[times.length - 1] as number) - (times[0] as number)) / (times.length - 1) / 1_000 : Infinity;
  return Math.max(Math.ceil(seconds / pause), 1);
}

/** The usual duration of a run; null without one. */
function median(runs: readonly RecentRun[]): number | null {
  const known = runs.flatMap((run) => (run.duration === null ? [] : [run.duration])).sort((one, other) => one - other);
  return known[Math.floor(known.length / 2)] ?? null;
}

const STEPS = [0.25, 0.5, 1, 2, 4, 6, 12, 24, 48];

/** Whole hours of the chosen zone, so far apart that their labels do not touch. */
function ticks(from: number, span: number, isNarrow: boolean): number[] {
  const offset = zone.value === "utc" ? 0 : new Date(from).getTimezoneOffset() * 60_000;
  const most = isNarrow ? 3 : 8;
  const step = (STEPS.find((hours) => span / (hours * HOUR) <= most) ?? 48) * HOUR;
  const first = Math.ceil((from - offset) / step) * step + offset;
  return Array.from({ length: Math.ceil(span / step) }, (_, index) => first + index * step).filter((at) => at <= from + span && Math.abs(at - (from + span * PAST_SHARE)) > span * (isNarrow ? 0.14 : 0.03));
}
