/** Queues: what waits and runs in each, who works on it, pausing and resuming. */

import { api, type Queue } from "../api.ts";
import { Ago, Empty, Lamp, Link, Loaded, PageHead, Table } from "../components/basics.tsx";
import { ask } from "../components/dialog.tsx";
import { Icon } from "../components/icons.tsx";
import { attempt, toast } from "../components/toasts.tsx";
import { zone } from "../lib/preferences.ts";
import { useQuery } from "../lib/query.ts";
import { fromInput, relative } from "../lib/time.ts";
import { now } from "../live.ts";
import { t } from "../strings.ts";

export default function QueuesPage() {
  const queues = useQuery("queues", api.queues, { isLive: true, every: 5 });
  const columns = t.queuesPage.columns;
  return (
    <>
      <PageHead title={t.queuesPage.title} />
      <div class="card">
        <Loaded query={queues}>
          {(data) =>
            data.items.length === 0 ? (
              <Empty title={t.queuesPage.empty} body={t.queuesPage.emptyBody} command={t.queuesPage.emptyCommand} />
            ) : (
              <Table
                caption={t.queuesPage.caption}
                head={
                  <>
                    <th>{columns.name}</th>
                    <th>{columns.state}</th>
                    <th class="right">{columns.due}</th>
                    <th>{columns.oldest}</th>
                    <th class="right">{columns.running}</th>
                    <th class="right">{columns.scheduled}</th>
                    <th class="right">{columns.retrying}</th>
                    <th class="right">{columns.workers}</th>
                    <th class="right">{columns.limit}</th>
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
              {[queue.pause_reason, queue.resume_at && t.queuesPage.resumes(relative(queue.resume_at, now.value))].filter(Boolean).join(", ")}
            </div>
          </div>
        ) : (
          <Lamp tone="good">{t.queuesPage.active}</Lamp>
        )}
      </td>
      <td class="right">{queue.due ? <Link to={jobs("pending,queued")}>{t.count(queue.due)}</Link> : <span class="faint">0</span>}</td>
      <td class="number">
        <Ago at={queue.due_since} />
      </td>
      <Counted queue={queue} state="running" to={jobs("running")} />
      <Counted queue={queue} state="scheduled" to={jobs("scheduled")} />
      <Counted queue={queue} state="retrying" to={jobs("retrying")} />
      <td class={`right ${isStarved ? "bad" : ""}`}>{queue.live_workers === 0 ? t.queuesPage.noWorker : t.count(queue.live_workers)}</td>
      <td class="right">{queue.max_depth === null ? <span class="faint">{t.none}</span> : t.count(queue.max_depth)}</td>
      <td class="actions">
        {queue.is_paused ? (
          <button type="button" class="small" onClick={() => void resume(queue).then((isDone) => isDone && onChange())}>
            <Icon name="play" size={14} /> {t.queuesPage.resume}
          </button>
        ) : (
          <button type="button" class="small" onClick={() => void pause(queue).then((isDone) => isDone && onChange())}>
            <Icon name="pause" size={14} /> {t.queuesPage.pause}
          </button>
        )}
        {waiting(queue) > 0 && (
          <button type="button" class="small danger" onClick={() => void purge(queue).then((isDone) => isDone && onChange())}>
            {t.queuesPage.purge}
          </button>
        )}
      </td>
    </tr>
  );
}

function Counted({ queue, state, to }: { queue: Queue; state: "running" | "scheduled" | "retrying"; to: string }) {
  const count = queue.states[state] ?? 0;
  return <td class="right">{count ? <Link to={to}>{t.count(count)}</Link> : <span class="faint">0</span>}</td>;
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
  return attempt(() => api.pauseQueue(queue.name, answer.text, resumeAt), () => t.queuesPage.pausedDone(queue.name));
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
  return attempt(() => api.operate({ action: "cancel", q: `queue:"${queue.name}" status:waiting` }), () => words.purgeDone(queue.name));
}

function resume(queue: Queue): Promise<boolean> {
  return attempt(() => api.resumeQueue(queue.name), () => t.queuesPage.resumedDone(queue.name));
}
