/** Schedules: when each fires in words, the next day as a timeline, and what can be done. */

import { useState } from "preact/hooks";
import { api, type Schedule } from "../api.ts";
import { Ago, Card, Empty, Lamp, Link, Loaded, Moment, PageHead, Table } from "../components/basics.tsx";
import { MOST_ROWS, Timeline } from "../components/charts.tsx";
import { Icon } from "../components/icons.tsx";
import { pauseSchedule, resumeSchedule, runSchedule } from "../components/schedule_actions.tsx";
import { ScheduleForm } from "../components/schedule_form.tsx";
import { cronWords } from "../lib/cron.ts";
import { useQuery } from "../lib/query.ts";
import { navigate } from "../lib/router.ts";
import { t } from "../strings.ts";

const words = t.schedulesPage;
const HOURS = 24;

export default function SchedulesPage() {
  const schedules = useQuery("schedules", api.schedules, { topic: "schedules", every: 10 });
  const [isCreating, setCreating] = useState(false);
  return (
    <>
      <PageHead title={words.title}>
        <button type="button" class="primary" onClick={() => setCreating(true)}>
          <Icon name="plus" /> {words.create}
        </button>
      </PageHead>
      <Loaded query={schedules}>
        {(data) =>
          data.items.length === 0 ? (
            <div class="card">
              <Empty title={words.empty} body={words.emptyBody} command={words.emptyCommand} />
            </div>
          ) : (
            <>
              <ForecastCard key={data.items.map((one) => `${one.id}${one.version}${one.status}`).join()} />
              <div class="card">
                <ScheduleTable items={data.items} onChange={schedules.reload} />
              </div>
            </>
          )
        }
      </Loaded>
      {isCreating && <ScheduleForm schedule={null} onClose={() => setCreating(false)} onSaved={(saved) => navigate(`/schedules/${saved.id}`)} />}
    </>
  );
}

function ForecastCard() {
  const forecast = useQuery("forecast", async (signal) => ({ from: Date.now(), ...(await api.forecast(HOURS, signal)) }), { every: 60 });
  return (
    <Card title={words.forecast} hint={forecast.data && !forecast.data.is_complete ? words.forecastPartial : undefined}>
      <Loaded query={forecast}>
        {(data) => (data.items.length === 0 ? <p class="faint">{words.forecastEmpty}</p> : <><Timeline forecast={data} hours={HOURS} from={data.from} /><Hidden items={data.items} /></>)}
      </Loaded>
    </Card>
  );
}

/** How many schedules fire, but have no row in the timeline. */
function Hidden({ items }: { items: { name: string }[] }) {
  const hidden = new Set(items.map((item) => item.name)).size - MOST_ROWS;
  return hidden > 0 ? <p class="faint">{words.forecastMore(hidden)}</p> : null;
}

export function Standing({ schedule }: { schedule: Schedule }) {
  if (schedule.status === "paused") return <Lamp tone="warn">{words.paused}</Lamp>;
  return schedule.status === "active" ? <Lamp tone="good">{words.active}</Lamp> : <Lamp tone="idle">{words.ended}</Lamp>;
}

function ScheduleTable({ items, onChange }: { items: Schedule[]; onChange: () => void }) {
  const columns = words.columns;
  return (
    <Table
      caption={words.caption}
      head={
        <>
          <th>{columns.name}</th>
          <th>{columns.state}</th>
          <th>{columns.rule}</th>
          <th>{columns.task}</th>
          <th>{columns.next}</th>
          <th>{columns.last}</th>
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
          <td>
            <Link to={`/jobs?schedule_id=${schedule.id}`}>{schedule.job.type}</Link>
          </td>
          <td class="number">
            <Ago at={schedule.status === "active" ? schedule.next_run_at : null} />
            {schedule.status === "active" && schedule.next_run_at && (
              <div class="hint">
                <Moment at={schedule.next_run_at} />
              </div>
            )}
          </td>
          <td class="number">
            {schedule.last_job_id ? (
              <Link to={`/jobs/${schedule.last_job_id}`}>
                <Ago at={schedule.last_run_at} />
              </Link>
            ) : (
              <Ago at={schedule.last_run_at} fallback={t.never} />
            )}
          </td>
          <td class="actions">
            <div class="row">
              <button type="button" class="small" onClick={() => void runSchedule(schedule).then((isDone) => isDone && onChange())}>
                <Icon name="play" size={14} /> {words.run}
              </button>
              {schedule.status === "paused" ? (
                <button type="button" class="small" onClick={() => void resumeSchedule(schedule).then((isDone) => isDone && onChange())}>
                  {words.resume}
                </button>
              ) : (
                <button type="button" class="small" onClick={() => void pauseSchedule(schedule).then((isDone) => isDone && onChange())}>
                  <Icon name="pause" size={14} /> {words.pause}
                </button>
              )}
            </div>
          </td>
        </tr>
      ))}
    </Table>
  );
}
