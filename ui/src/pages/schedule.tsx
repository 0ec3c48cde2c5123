/** One schedule: its next fire times, what became of the past ones, and the job it makes. */

import { useState } from "preact/hooks";
import { api, type Job, type Schedule } from "../api.ts";
import { Ago, Card, Json, Link, Loaded, Moment, PageHead, StateBadge, Table, Took } from "../components/basics.tsx";
import { Icon } from "../components/icons.tsx";
import { Permitted } from "../components/permitted.tsx";
import { Backfill, deleteSchedule, pauseSchedule, resumeSchedule, runSchedule, skipSchedule } from "../components/schedule_actions.tsx";
import { ScheduleForm } from "../components/schedule_form.tsx";
import { cronWords } from "../lib/cron.ts";
import { zone } from "../lib/preferences.ts";
import { useQuery } from "../lib/query.ts";
import { navigate } from "../lib/router.ts";
import { absolute, duration } from "../lib/time.ts";
import { t } from "../strings.ts";
import { Standing } from "./schedules.tsx";

const words = t.schedulesPage;

export default function SchedulePage({ id }: { id: string }) {
  const schedule = useQuery(`schedule ${id}`, (signal) => api.schedule(id, signal), { isLive: true, every: 10 });
  return <Loaded query={schedule}>{(data) => <View schedule={data} onChange={schedule.reload} />}</Loaded>;
}

function View({ schedule, onChange }: { schedule: Schedule; onChange: () => void }) {
  const [dialog, setDialog] = useState<"edit" | "backfill" | null>(null);
  const done = (isDone: boolean): void => {
    if (isDone) onChange();
  };
  return (
    <>
      <PageHead title={schedule.name} note={<Standing schedule={schedule} />}>
        <Permitted needs="schedules.run" onClick={() => void runSchedule(schedule).then(done)}>
          <Icon name="play" /> {words.run}
        </Permitted>
        {schedule.status === "active" && schedule.next_run_at && (
          <Permitted needs="schedules.pause" onClick={() => void skipSchedule(schedule).then(done)}>
            {words.skip}
          </Permitted>
        )}
        {schedule.status === "paused" ? (
          <Permitted needs="schedules.pause" onClick={() => void resumeSchedule(schedule).then(done)}>
            {words.resume}
          </Permitted>
        ) : (
          <Permitted needs="schedules.pause" onClick={() => void pauseSchedule(schedule).then(done)}>
            <Icon name="pause" /> {words.pause}
          </Permitted>
        )}
        <Permitted needs="schedules.run" onClick={() => setDialog("backfill")}>
          {words.backfill}
        </Permitted>
        <Permitted needs="schedules.edit" onClick={() => setDialog("edit")}>
          <Icon name="edit" /> {words.edit}
        </Permitted>
        <Permitted needs="schedules.edit" class="danger" onClick={() => void deleteSchedule(schedule).then((isDone) => isDone && navigate("/schedules"))}>
          <Icon name="trash" /> {words.remove}
        </Permitted>
      </PageHead>
      {schedule.app && <p class="notice">{words.fromApp(schedule.app)}</p>}
      <Facts schedule={schedule} />
      <div class="grid">
        <Next schedule={schedule} />
        <History schedule={schedule} />
      </div>
      <Card title={words.template} hint={<Link to={`/jobs?schedule_id=${schedule.id}`}>{t.nav.jobs}</Link>}>
        <p class="field">
          <strong>{schedule.job.type}</strong> {schedule.job.queue && <span class="faint">{schedule.job.queue}</span>}
        </p>
        <Json text={schedule.job.payload.text} label={t.job.payload} />
      </Card>
      {dialog === "edit" && (
        <ScheduleForm
          schedule={schedule}
          onClose={() => setDialog(null)}
          onSaved={() => {
            setDialog(null);
            onChange();
          }}
        />
      )}
      {dialog === "backfill" && (
        <Backfill
          schedule={schedule}
          onClose={() => setDialog(null)}
          onDone={() => {
            setDialog(null);
            onChange();
          }}
        />
      )}
    </>
  );
}

function Facts({ schedule }: { schedule: Schedule }) {
  const form = t.scheduleForm;
  const facts: [string, preact.ComponentChildren][] = [
    [words.columns.rule, cronWords(schedule.cron) ?? schedule.cron],
    [form.rule, <code>{schedule.cron}</code>],
    [form.zone, schedule.zone],
    [form.overlap, form.overlaps[schedule.overlap] ?? schedule.overlap],
    [form.catchUp, form.catchUps[schedule.catch_up] ?? schedule.catch_up],
  ];
  if (schedule.jitter) facts.push([form.jitter, duration(schedule.jitter * 1_000)]);
  if (schedule.pause_reason) facts.push([words.reason, schedule.pause_reason]);
  return (
    <Card title={words.details}>
      <dl class="facts">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </Card>
  );
}

function Next({ schedule }: { schedule: Schedule }) {
  const next = useQuery(`next ${schedule.id} ${schedule.version} ${schedule.next_run_at}`, (signal) => api.preview(schedule.cron, schedule.zone, 10, null, signal), { every: 60 });
  return (
    <Card title={words.nextTimes} isFlush>
      <Loaded query={next}>
        {(data) => {
          const clocks = data.local_times.map((time) => time.slice(0, 16).replace("T", " "));
          // The same times in the zone of the schedule, if they differ from those beside them.
          const isElsewhere = data.times.some((time, index) => !absolute(time, zone.value, data.zone).startsWith(clocks[index] ?? ""));
          return (
          <>
          {data.clock_changes.map((change) => (
            <p key={change.at} class="notice clock-change">
              {change.text}
            </p>
          ))}
          <Table
            caption={words.nextTimes}
            head={
              <>
                <th>{words.fireTime}</th>
                {isElsewhere && <th>{words.wallClock(data.zone)}</th>}
                <th>
                  <span class="sr-only">{words.columns.next}</span>
                </th>
              </>
            }
          >
            {data.times.map((time, index) => (
              <tr key={time}>
                <td class="number">
                  <Moment at={time} place={data.zone} />
                </td>
                {isElsewhere && <td class="number">{clocks[index]}</td>}
                <td class="faint number">
                  <Ago at={time} place={data.zone} />
                </td>
              </tr>
            ))}
          </Table>
          </>
          );
        }}
      </Loaded>
    </Card>
  );
}

/** How the job of a fire time stands; its outcome, not merely that it was made. */
function Fate({ job, isKnown }: { job: Job | undefined; isKnown: boolean }) {
  if (job) return <StateBadge state={job.status} />;
  return <span class="faint">{isKnown ? words.pruned : t.none}</span>;
}

const SHOWN = 30;

function History({ schedule }: { schedule: Schedule }) {
  const past = useQuery(`occurrences ${schedule.id}`, (signal) => api.occurrences(schedule.id, SHOWN, signal), { isLive: true, every: 10 });
  // A few more: a job that somebody ran by hand has no fire time.
  const made = useQuery(`jobs of ${schedule.id}`, (signal) => api.jobs({ schedule_id: schedule.id }, null, 2 * SHOWN, signal), { isLive: true, every: 10 });
  const jobs = new Map((made.data?.items ?? []).map((job) => [job.id, job]));
  return (
    <Card title={words.history} isFlush>
      <Loaded query={past}>
        {(data) =>
          data.items.length === 0 ? (
            <p class="faint card-body">{words.historyEmpty}</p>
          ) : (
            <Table
              caption={words.history}
              head={
                <>
                  <th>{words.fireTime}</th>
                  <th>{words.fate}</th>
                  <th class="right">{words.took}</th>
                  <th>{words.job}</th>
                </>
              }
            >
              {data.items.map((one) => (
                <tr key={one.fire_time}>
                  <td class="number">
                    <Moment at={one.fire_time} place={schedule.zone} />
                  </td>
                  <td>{one.job_id === null ? words.notDone(one.fate) : <Fate job={jobs.get(one.job_id)} isKnown={made.data !== null} />}</td>
                  <td class="right number">
                    <Took from={jobs.get(one.job_id ?? "")?.started_at ?? null} to={jobs.get(one.job_id ?? "")?.completed_at ?? null} />
                  </td>
                  <td>
                    {one.job_id && (
                      <Link to={`/jobs/${one.job_id}`} class="mono">
                        {one.job_id}
                      </Link>
                    )}
                  </td>
                </tr>
              ))}
            </Table>
          )
        }
      </Loaded>
    </Card>
  );
}
