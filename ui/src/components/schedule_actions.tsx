/** What can be done about a schedule: pause, resume, run now, skip the next time, delete, backfill. */

import { useState } from "preact/hooks";
import { api, type Schedule } from "../api.ts";
import { zone } from "../lib/preferences.ts";
import { useQuery } from "../lib/query.ts";
import { forInput, fromInput } from "../lib/time.ts";
import { t } from "../strings.ts";
import { Field, Moment } from "./basics.tsx";
import { ask, Dialog } from "./dialog.tsx";
import { attempt } from "./toasts.tsx";

const words = t.schedulesPage;

export async function pauseSchedule(schedule: Schedule): Promise<boolean> {
  const answer = await ask({ title: words.pauseTitle(schedule.name), body: words.pauseBody, action: words.pause, field: { label: words.reason } });
  return answer !== null && attempt(() => api.pauseSchedule(schedule.id, answer.text), () => words.pausedDone(schedule.name), () => void resumeSchedule(schedule));
}

export function resumeSchedule(schedule: Schedule): Promise<boolean> {
  return attempt(() => api.resumeSchedule(schedule.id), () => words.resumedDone(schedule.name));
}

export async function runSchedule(schedule: Schedule): Promise<boolean> {
  const answer = await ask({ title: words.runTitle(schedule.name), body: words.runBody, action: words.run });
  return answer !== null && attempt(() => api.runSchedule(schedule.id), (job) => words.ranDone(job.id));
}

export async function skipSchedule(schedule: Schedule): Promise<boolean> {
  const answer = await ask({ title: words.skipTitle(schedule.name), body: words.skipBody, action: words.skip });
  return answer !== null && attempt(() => api.skipSchedule(schedule.id), () => words.skippedDone(schedule.name));
}

export async function deleteSchedule(schedule: Schedule): Promise<boolean> {
  const answer = await ask({ title: words.deleteTitle(schedule.name), body: words.deleteBody, action: words.remove, isDangerous: true });
  return answer !== null && attempt(() => api.deleteSchedule(schedule.id), () => words.deletedDone(schedule.name));
}

const HOUR = 3_600_000;

/** Asks for a stretch of time and shows how many fire times lie in it before anything is made. */
export function Backfill({ schedule, onClose, onDone }: { schedule: Schedule; onClose: () => void; onDone: () => void }) {
  const [from, setFrom] = useState(forInput(new Date(Date.now() - 24 * HOUR), zone.peek()));
  const [to, setTo] = useState(forInput(new Date(), zone.peek()));
  const [start, end] = [fromInput(from, zone.value), fromInput(to, zone.value)];
  const isValid = !Number.isNaN(start.getTime()) && !Number.isNaN(end.getTime()) && start < end;
  const times = useQuery(`backfill ${schedule.id} ${from} ${to} ${zone.value}`, async () => (isValid ? api.backfillTimes(schedule.id, start.toISOString(), end.toISOString()) : []), { every: 3_600 });
  const found = times.data ?? [];
  const count = t.count(found.length);
  return (
    <Dialog title={words.backfillTitle(schedule.name)} onClose={onClose} class="small">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const made = attempt(() => api.backfill(schedule.id, start.toISOString(), end.toISOString()), (reply) => words.backfillDone(reply.jobs.length));
          void made.then((isDone) => isDone && onDone());
        }}
      >
        <p>{words.backfillBody}</p>
        <Field id="backfill-from" label={words.from}>
          <input id="backfill-from" type="datetime-local" required value={from} onInput={(event) => setFrom(event.currentTarget.value)} />
        </Field>
        <Field id="backfill-to" label={words.to}>
          <input id="backfill-to" type="datetime-local" required value={to} onInput={(event) => setTo(event.currentTarget.value)} />
        </Field>
        <div class="preview" role="status">
          {times.error ? <p class="field-error">{times.error.detail}</p> : !isValid ? <p class="field-error">{words.backfillWrong}</p> : times.data === null ? t.loading : words.backfillCount(count)}
          {found.length > 0 && (
            <ol>
              {found.slice(0, 8).map((time) => (
                <li key={time}>
                  <Moment at={time} />
                </li>
              ))}
            </ol>
          )}
          {found.length > 8 && <p class="faint">{words.backfillMore(found.length - 8)}</p>}
        </div>
        <div class="dialog-actions">
          <button type="button" onClick={onClose}>
            {t.cancel}
          </button>
          <button type="submit" class="primary" disabled={!isValid || found.length === 0}>
            {words.backfillDo(count)}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
