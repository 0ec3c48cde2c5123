/** Schedules: when each fires in words, the next day as a timeline, and what can be done. */

import { useState } from "preact/hooks";
import { api, type RecentRuns, type Schedule } from "../api.ts";
import { Ago, Card, Empty, Lamp, Link, Loaded, Moment, PageHead, Table } from "../components/basics.tsx";
import { Icon } from "../components/icons.tsx";
import { Permitted } from "../components/permitted.tsx";
import { pauseSchedule, resumeSchedule, runSchedule } from "../components/schedule_actions.tsx";
import { RunStrip } from "../components/run_strip.tsx";
import { ScheduleForm } from "../components/schedule_form.tsx";
import { Timeline } from "../components/timeline.tsx";
import { cronWords } from "../lib/cron.ts";
import { useQuery } from "../lib/query.ts";
import { navigate, parameters, setParameters } from "../lib/router.ts";
import { duration } from "../lib/time.ts";
import { t } from "../strings.ts";

const words = t.schedulesPage;
/** How many hours ahead the timeline shows. */
const SPANS = [1, 6, 24, 168] as const;
const MOST_RECENT = 60;

export default function SchedulesPage() {
  const schedules = useQuery("schedules", api.schedules, { topic: "schedules", every: 10 });
  const recent = useQuery("recent runs", (signal) => api.recentRuns(MOST_RECENT, signal), { topic: "schedules", every: 15 });
  const isCreating = parameters.value.get("new") === "1";
  const setCreating = (isOpen: boolean): void => setParameters({ new: isOpen ? "1" : null }, { replace: true });
  return (
    <>
      <PageHead title={words.title}>
        <Permitted needs="schedules.edit" class="primary" onClick={() => setCreating(true)}>
          <Icon name="plus" /> {words.create}
        </Permitted>
      </PageHead>
      <Loaded query={schedules}>
        {(data) =>
          data.items.length === 0 ? (
            <div class="card">
              <Empty title={words.empty} body={words.emptyBody} command={words.emptyCommand} />
            </div>
          ) : (
            <>
              <ForecastCard key={data.items.map((one) => `${one.id}${one.version}${one.status}`).join()} recent={recent.data?.items ?? []} />
              <div class="card">
                <ScheduleTable items={data.items} recent={recent.data?.items ?? []} onChange={schedules.reload} />
              </div>
            </>
          )
        }
      </Loaded>
      {isCreating && <ScheduleForm schedule={null} onClose={() => setCreating(false)} onSaved={(saved) => navigate(`/schedules/${saved.id}`)} />}
    </>
  );
}

function ForecastCard({ recent }: { recent: readonly RecentRuns[] }) {
  const [hours, setHours] = useState<number>(24);
  const forecast = useQuery(`forecast ${hours}`, async (signal) => ({ now: Date.now(), ...(await api.forecast(hours, signal)) }), { every: 60 });
  const choice = (
    <div class="segments" role="group" aria-label={words.span}>
      {SPANS.map((one) => (
        <button key={one} type="button" aria-pressed={one === hours} onClick={() => setHours(one)}>
          {one < 48 ? `${one}h` : `${one / 24}d`}
        </button>
      ))}
    </div>
  );
  return (
    <Card title={words.forecast} hint={forecast.data && !forecast.data.is_complete ? words.forecastPartial : undefined} actions={choice}>
      <Loaded query={forecast}>
        {(data) => (data.items.length === 0 && recent.every((one) => one.runs.length === 0) ? <p class="faint">{words.forecastEmpty}</p> : <Timeline forecast={data} recent={recent} hours={hours} now={data.now} />)}
      </Loaded>
      <div class="legend" aria-hidden="true">
        <span><i class="swatch-good" />{t.states.completed}</span>
        <span><i class="swatch-bad" />{t.states.dead}</span>
        <span><i class="swatch-next" />{words.toCome}</span>
      </div>
    </Card>
  );
}

export function Standing({ schedule }: { schedule: Schedule }) {
  if (schedule.status === "paused") return <Lamp tone="warn">{words.paused}</Lamp>;
  return schedule.status === "active" ? <Lamp tone="good">{words.active}</Lamp> : <Lamp tone="idle">{words.ended}</Lamp>;
}

function ScheduleTable({ items, recent, onChange }: { items: Schedule[]; recent: readonly RecentRuns[]; onChange: () => void }) {
  const runsOf = new Map(recent.map((one) => [one.schedule_id, one]));
  const columns = words.columns;
  return (
    <Table
      caption={words.caption}
      isCards
      head={
        <>
          <th>{columns.name}</th>
          <th>{columns.state}</th>
          <th>{columns.rule}</th>
          <th>{columns.next}</th>
          <th>{columns.runs}</th>
          <th class="right">{columns.late}</th>
          <th>
            <span class="sr-only">{t.actions}</span>
          </th>
        </>
      }
    >
      {items.map((schedule) => (
        <tr key={schedule.id}>
          <td>
            <Link to={`/schedules/${schedule.id}`} class="strong">
              <span class="clip">{schedule.name}</span>
            </Link>
            <div class="hint">
              <Link to={`/jobs?schedule_id=${schedule.id}`}>{schedule.job.type}</Link>
            </div>
          </td>
          <td>
            <Standing schedule={schedule} />
            {schedule.pause_reason && <div class="hint clip">{schedule.pause_reason}</div>}
          </td>
          <td class="number">
            {cronWords(schedule.cron) ?? <code>{schedule.cron}</code>}
            <div class="hint">
              {cronWords(schedule.cron) && <code>{schedule.cron}</code>} {schedule.zone}
            </div>
          </td>
          <td class="number">
            <Ago at={schedule.status === "active" ? schedule.next_run_at : null} place={schedule.zone} />
            {schedule.status === "active" && schedule.next_run_at && (
              <div class="hint">
                <Moment at={schedule.next_run_at} place={schedule.zone} />
              </div>
            )}
          </td>
          <td>
            <RunStrip runs={runsOf.get(schedule.id)?.runs ?? []} />
            <div class="hint">
              {schedule.last_job_id ? (
                <Link to={`/jobs/${schedule.last_job_id}`}>
                  <Ago at={schedule.last_run_at} />
                </Link>
              ) : (
                schedule.last_run_at && <Ago at={schedule.last_run_at} />
              )}
            </div>
          </td>
          <td class="right number">
            <Late seconds={runsOf.get(schedule.id)?.lateness_p95 ?? null} />
          </td>
          <td class="actions">
            <div class="row">
              <Permitted needs="schedules.run" class="small" onClick={() => void runSchedule(schedule).then((isDone) => isDone && onChange())}>
                <Icon name="play" size={14} /> {words.run}
              </Permitted>
              {schedule.status === "paused" ? (
                <Permitted needs="schedules.pause" class="small" onClick={() => void resumeSchedule(schedule).then((isDone) => isDone && onChange())}>
                  {words.resume}
                </Permitted>
              ) : (
                <Permitted needs="schedules.pause" class="small" onClick={() => void pauseSchedule(schedule).then((isDone) => isDone && onChange())}>
                  <Icon name="pause" size={14} /> {words.pause}
                </Permitted>
              )}
            </div>
          </td>
        </tr>
      ))}
    </Table>
  );
}

/** How late the runs of a schedule start, but for the latest of them. */
function Late({ seconds }: { seconds: number | null }) {
  if (seconds === null) return <span class="faint">{t.none}</span>;
  return <span class={seconds > 60 ? "warn" : ""}>{duration(seconds * 1_000)}</span>;
}
