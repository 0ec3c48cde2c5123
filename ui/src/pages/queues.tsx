/** Queues: what waits and runs in each, who works on it, pausing and resuming. */

import { api, type Queue } from "../api.ts";
import { Ago, Empty, Lamp, Link, Loaded, Meter, PageHead, Table } from "../components/basics.tsx";
import { ask } from "../components/dialog.tsx";
import { Icon } from "../components/icons.tsx";
import { OperationList } from "../components/operation_list.tsx";
import { begin } from "../components/operations.tsx";
import { Permitted } from "../components/permitted.tsx";
import { attempt, toast } from "../components/toasts.tsx";
import { zone } from "../lib/preferences.ts";
import { useQuery } from "../lib/query.ts";
import { duration, fromInput, relative } from "../lib/time.ts";
import { now } from "../live.ts";
import { t } from "../strings.ts";

export default function QueuesPage() {
  const queues = useQuery("queues", api.queues, { isLive: true, every: 5 });
  const columns = t.queuesPage.columns;
  return (
    <>
      <PageHead title={t.queuesPage.title} />
      <OperationList />
      <div class="card">
        <Loaded query={queues}>
          {(data) =>
            data.items.length === 0 ? (
              <Empty title={t.queuesPage.empty} body={t.queuesPage.emptyBody} command={t.queuesPage.emptyCommand} />
            ) : (
              <Table
                caption={t.queuesPage.caption}
                isCards
                head={
                  <>
                    <th>{columns.name}</th>
                    <th>{columns.state}</th>
                    <th class="right">{columns.due}</th>
                    <th>{columns.oldest}</th>
                    <th class="right">{columns.running}</th>
                    <th class="right">{columns.rates}</th>
                    <th>{columns.drain}</th>
                    <th class="right">{columns.scheduled}</th>
                    <th class="right">{columns.workers}</th>
                    <th>
                      <span class="sr-only">{t.actions}</span>
                    </th>
                  </>
                }
              >
                {data.items.map((queue) => (
                  <Row key={queue.name} queue={queue} onChange={queues.reload} />
                ))}
              </Table>
            )
          }
        </Loaded>
      </div>
    </>
  );
}

function Row({ queue, onChange }: { queue: Queue; onChange: () => void }) {
  const jobs = (status: string): string => `/jobs?queue=${encodeURIComponent(queue.name)}&status=${status}`;
  const isStarved = queue.live_workers === 0 && queue.due > 0;
  return (
    <tr>
      <td>
        <Link to={`/jobs?queue=${encodeURIComponent(queue.name)}`} class="strong">
          {queue.name}
        </Link>
        <div class="hint clip">
          {queue.types.slice(0, 4).map((one) => one.type).join(", ")}
          {queue.types.length > 4 && " …"}
        </div>
      </td>
      <td>
        {queue.is_paused ? (
          <div title={queue.pause_reason ?? ""}>
            <Lamp tone="warn">{t.queuesPage.paused}</Lamp>
            <div class="hint clip">
              {[queue.paused_by && t.queuesPage.pausedBy(queue.paused_by), queue.pause_reason, queue.resume_at && t.queuesPage.resumes(relative(queue.resume_at, now.value))].filter(Boolean).join(", ")}
            </div>
          </div>
        ) : (
          <Lamp tone="good">{t.queuesPage.active}</Lamp>
        )}
      </td>
      <td class="right">
        {queue.due ? <Link to={jobs("pending,queued")}>{t.count(queue.due)}</Link> : <span class="faint">0</span>}
        {queue.max_depth !== null && <div class="hint">{t.queuesPage.atMost(queue.max_depth)}</div>}
      </td>
      <td class="number">
        <Ago at={queue.due_since} />
      </td>
      <td class="right number">
        <Running queue={queue} to={jobs("running")} />
      </td>
      <td class="right number" title={t.queuesPage.ratesHint}>
        {queue.rate_in === null || queue.rate_out === null ? <span class="faint">{t.none}</span> : t.queuesPage.rates(queue.rate_in, queue.rate_out)}
      </td>
      <td class="number">
        <Drain queue={queue} />
      </td>
      <td class="right">
        <Counted queue={queue} state="scheduled" to={jobs("scheduled")} />
        {(queue.states.retrying ?? 0) > 0 && (
          <div class="hint">
            <Counted queue={queue} state="retrying" to={jobs("retrying")} /> {t.states.retrying}
          </div>
        )}
      </td>
      <td class={`right ${isStarved ? "bad" : ""}`}>{queue.live_workers === 0 ? t.queuesPage.noWorker : t.count(queue.live_workers)}</td>
      <td class="actions">
        {queue.is_paused ? (
          <Permitted needs="queues.pause" class="small" onClick={() => void resume(queue).then((isDone) => isDone && onChange())}>
            <Icon name="play" size={14} /> {t.queuesPage.resume}
          </Permitted>
        ) : (
          <Permitted needs="queues.pause" class="small" onClick={() => void pause(queue).then((isDone) => isDone && onChange())}>
            <Icon name="pause" size={14} /> {t.queuesPage.pause}
          </Permitted>
        )}
        {waiting(queue) > 0 && (
          <Permitted needs={["jobs.operate", "jobs.cancel"]} class="small danger" onClick={() => void purge(queue).then((isDone) => isDone && onChange())}>
            {t.queuesPage.purge}
          </Permitted>
        )}
      </td>
    </tr>
  );
}

/** How many run, of as many as may. */
function Running({ queue, to }: { queue: Queue; to: string }) {
  const running = queue.states.running ?? 0;
  const most = queue.max_running ?? queue.slots;
  return (
    <>
      {most > 0 && <Meter value={running} max={most} label={t.queuesPage.used(running, most)} />}
      {running ? <Link to={to}>{t.count(running)}</Link> : <span class="faint">0</span>}
      {most > 0 && <span class="faint">/{t.count(most)}</span>}
    </>
  );
}

/** How long the due jobs take at the present rates. */
function Drain({ queue }: { queue: Queue }) {
  if (queue.due === 0) return <span class="faint">{t.none}</span>;
  if (queue.drain_seconds !== null) return <>≈ {duration(queue.drain_seconds * 1_000)}</>;
  return <span class={queue.is_paused ? "faint" : "warn"}>{queue.rate_in === null ? t.none : queue.is_paused ? t.queuesPage.waitsForResume : queue.rate_out === 0 ? t.queuesPage.stands : t.queuesPage.grows}</span>;
}

function Counted({ queue, state, to }: { queue: Queue; state: "scheduled" | "retrying"; to: string }) {
  const count = queue.states[state] ?? 0;
  return count ? <Link to={to}>{t.count(count)}</Link> : <span class="faint">0</span>;
}

async function pause(queue: Queue): Promise<boolean> {
  const answer = await ask({
    title: t.queuesPage.pauseTitle(queue.name),
    body: t.queuesPage.pauseBody(queue.due),
    action: t.queuesPage.pause,
    field: { label: t.queuesPage.reason, hint: t.queuesPage.reasonHint },
    second: { label: t.queuesPage.resumeAt, hint: t.queuesPage.resumeAtHint, type: "datetime-local" },
  });
  if (answer === null) return false;
  const resumeAt = answer.second ? fromInput(answer.second, zone.peek()).toISOString() : null;
  return attempt(() => api.pauseQueue(queue.name, answer.text, resumeAt), () => t.queuesPage.pausedDone(queue.name), () => void resume(queue));
}

function waiting(queue: Queue): number {
  return (["pending", "queued", "scheduled", "retrying", "blocked"] as const).reduce((sum, state) => sum + (queue.states[state] ?? 0), 0);
}

/** Cancels what waits in a queue, by an operation, once its name was typed. */
async function purge(queue: Queue): Promise<boolean> {
  const words = t.queuesPage;
  const answer = await ask({
    title: words.purgeTitle(queue.name),
    body: words.purgeBody(waiting(queue)),
    action: words.purge,
    isDangerous: true,
    field: { label: words.purgeName },
  });
  if (answer === null) return false;
  if (answer.text.trim() !== queue.name) {
    toast(words.purgeWrong, "bad");
    return false;
  }
  return begin({ action: "cancel", q: `queue:"${queue.name}" status:waiting` }, words.purgeDone(queue.name));
}

function resume(queue: Queue): Promise<boolean> {
  return attempt(() => api.resumeQueue(queue.name), () => t.queuesPage.resumedDone(queue.name));
}
