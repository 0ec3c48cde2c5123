/** Overview: what needs attention first, then counts, throughput, queues, failures and workers. */

import { lazy, Suspense } from "preact/compat";
import { useState } from "preact/hooks";
import { api, type History } from "../api.ts";
import { Ago, Card, Command, Lamp, Link, Loaded, Loading, Meter, PageHead, Remedy, StateBadge, Table } from "../components/basics.tsx";
import { Sparkline } from "../components/charts.tsx";
import { Icon } from "../components/icons.tsx";
import { useQuery } from "../lib/query.ts";
import { byWholeMinute, perMinute } from "../lib/rates.ts";
import { duration, relative } from "../lib/time.ts";
import { changes, now, queues, samples, stats } from "../live.ts";
import { t } from "../strings.ts";

const Throughput = lazy(() => import("../components/throughput.tsx"));

export default function OverviewPage() {
  const overview = useQuery("overview", api.overview, { isLive: true, every: 5 });
  const ended = overview.data?.last_ended_at ?? null;
  return (
    <>
      <PageHead title={t.overview.title} />
      <Attention />
      <Tiles lastEnd={ended} />
      <div class="columns">
        <div>
          <Activity isIdle={overview.data?.is_idle === true} ended={ended} />
          <Queues />
        </div>
        <div>
          <Recent />
          <Failing />
          <Workers />
        </div>
      </div>
    </>
  );
}

/** Stretches of the history that can be chosen, and the length of their buckets. */
const STRETCHES = { "1h": "1m", "24h": "15m", "7d": "1h", "21d": "6h" } as const;
type Stretch = keyof typeof STRETCHES;

/** Finished and failed jobs by time, and how long jobs waited and ran. */
function Activity({ isIdle, ended }: { isIdle: boolean; ended: string | null }) {
  const [stretch, setStretch] = useState<Stretch>("1h");
  const history = useQuery(`history ${stretch}`, (signal) => api.history(stretch, STRETCHES[stretch], signal), { every: 10 });
  const choice = (
    <div class="segments" role="group" aria-label={t.overview.stretch}>
      {(Object.keys(STRETCHES) as Stretch[]).map((one) => (
        <button key={one} type="button" aria-pressed={one === stretch} onClick={() => setStretch(one)}>
          {one}
        </button>
      ))}
    </div>
  );
  return (
    <Card title={t.overview.throughput} hint={t.overview.throughputHint(STRETCHES[stretch])} actions={choice}>
      <Loaded query={history}>
        {(data) => (
          <>
            {data.total.started + data.total.submitted === 0 ? (
              <p class="faint">{isIdle && ended ? t.overview.idleSince(relative(ended, now.value)) : t.overview.idleNever}</p>
            ) : (
              <Suspense fallback={<Loading />}>
                <Throughput history={data} />
              </Suspense>
            )}
            <Times history={data} />
          </>
        )}
      </Loaded>
    </Card>
  );
}

function Times({ history }: { history: History }) {
  const seconds = (value: number | null): string => (value === null ? t.none : `≤ ${duration(value * 1_000)}`);
  return (
    <Table
      caption={t.overview.times}
      head={
        <>
          <th>{t.overview.times}</th>
          <th class="right">p50</th>
          <th class="right">p95</th>
          <th class="right">p99</th>
        </>
      }
    >
      {(["wait", "duration", "lateness"] as const).map((name) => (
        <tr key={name}>
          <td>
            {t.overview.measures[name]} <span class="faint narrow-hide">{t.overview.measureHints[name]}</span>
          </td>
          <td class="right number">{seconds(history.percentiles[name].p50)}</td>
          <td class="right number">{seconds(history.percentiles[name].p95)}</td>
          <td class="right number">{seconds(history.percentiles[name].p99)}</td>
        </tr>
      ))}
    </Table>
  );
}

function Attention() {
  const attention = useQuery("attention", api.attention, { isLive: true, every: 5 });
  return (
    <Card title={t.overview.attention} isFlush class={attention.data?.items.length ? "attention" : ""}>
      <Loaded query={attention}>
        {(data) =>
          // What is not known now is not called well.
          data.items.length === 0 ? attention.error ? null : (
            <div class="calm">
              <Icon name="check" size={20} />
              <div>
                <strong>{t.overview.nothing}</strong> <span class="faint">{t.overview.nothingBody}</span>
              </div>
            </div>
          ) : (
            <ul>
              {data.items.map((problem) => (
                <li key={problem.code + problem.text} class={`severity-${problem.severity}`}>
                  <Icon name="dead" size={18} />
                  <span>
                    <span class="sr-only">{t.overview.severities[problem.severity]}: </span>
                    <span class="sentence">{problem.text}</span> <code class="faint">{problem.code}</code>
                    {problem.since && (
                      <span class="faint">
                        {" "}
                        <Ago at={problem.since} />
                      </span>
                    )}
                  </span>
                  <Link to={problem.link}>{t.open}</Link>
                  <span class="fix">
                    <Remedy text={problem.fix} />
                  </span>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Card>
  );
}

function Tile(props: { title: string; value: string; hint: string; to?: string; values?: readonly number[] | null | undefined; tone?: string }) {
  const inside = (
    <>
      <h2>{props.title}</h2>
      <div class={`value ${props.tone ?? ""}`}>{props.value}</div>
      <span class="hint">{props.hint}</span>
      {props.values?.some((one) => one > 0) && <Sparkline values={props.values} />}
    </>
  );
  return props.to ? (
    <Link to={props.to} class="tile">
      {inside}
    </Link>
  ) : (
    <div class="tile">{inside}</div>
  );
}

function Tiles({ lastEnd }: { lastEnd: string | null }) {
  const history = useQuery("history", (signal) => api.history("1h", "1m", signal), { every: 15 });
  const counts = stats.value;
  if (counts === null) return <Loading />;
  const rates = perMinute(samples.value);
  // A page that was just opened has seen too little; then the last whole minute of the history is shown.
  const seen = rates.slice(-6);
  const minute = history.data ? (byWholeMinute(history.data, "succeeded", Date.now()).at(-1) ?? 0) : 0;
  const rate = seen.length < 6 ? minute : seen.reduce((sum, one) => sum + one.completed, 0) / seen.length;
  const isIdle = rate < 0.5 && counts.running === 0;
  const recent = samples.value.slice(-120);
  const hour = history.data?.total;
  const ended = hour ? hour.succeeded + hour.failed : 0;
  /** Of the attempts that ended in the last hour. */
  const share = hour && ended > 0 ? hour.failed / ended : null;
  const waiting = (counts.states.scheduled ?? 0) + (counts.states.retrying ?? 0) + (counts.states.blocked ?? 0);
  return (
    <div class="tiles">
      <Tile
        title={t.overview.rate}
        value={t.count(Math.round(rate))}
        hint={isIdle && lastEnd ? t.overview.idle(relative(lastEnd, now.value)) : seen.length < 6 ? t.overview.rateMinute : t.overview.rateHint}
        to="/jobs?status=completed"
        values={history.data && byWholeMinute(history.data, "succeeded", Date.now())}
      />
      <Tile title={t.overview.running} value={t.count(counts.running)} hint={t.overview.runningHint(counts.slots)} to="/jobs?status=running" values={recent.length > 10 ? recent.map((one) => one.running) : null} />
      <Tile title={t.overview.due} value={t.count(counts.due)} hint={t.overview.dueHint} to="/jobs?status=pending,queued" values={recent.length > 10 ? recent.map((one) => one.due) : null} />
      <Tile title={t.overview.waiting} value={t.count(waiting)} hint={t.overview.waitingHint(counts.states.scheduled ?? 0, counts.states.retrying ?? 0)} to="/jobs?status=scheduled,retrying,blocked" />
      <Tile title={t.overview.failed} value={share === null ? t.none : t.overview.percent(share)} hint={t.overview.failedHint} to="/jobs?q=attempts:>1" tone={share !== null && share >= 0.1 ? "bad" : ""} values={history.data && byWholeMinute(history.data, "failed", Date.now())} />
      <Tile title={t.overview.dead} value={t.count(counts.dlq_size)} hint={t.overview.deadHint} to="/dead" tone={counts.dlq_size ? "bad" : ""} values={history.data && byWholeMinute(history.data, "dead", Date.now())} />
    </div>
  );
}

function Recent() {
  const shown = changes.value.slice(0, 6);
  return (
    <Card title={t.overview.recent} isFlush actions={<Link to="/events">{t.nav.events}</Link>}>
      {shown.length === 0 ? (
        <p class="faint card-body">{t.overview.recentNone}</p>
      ) : (
        <ul class="feed">
          {shown.map((change) => (
            <li key={`${change.id}${change.at}${change.state}`}>
              <StateBadge state={change.state} />
              <Link to={`/jobs/${change.id}`} class="clip strong">
                {change.type}
              </Link>
              <Ago at={new Date(change.at).toISOString()} />
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function Queues() {
  const listed = queues.value;
  if (listed === null) return null;
  const busiest = [...listed].sort((one, other) => other.due - one.due || other.depth - one.depth).slice(0, 6);
  const columns = t.queuesPage.columns;
  if (listed.length === 0) {
    return (
      <Card title={t.overview.queues}>
        <p class="faint">{t.jobsPage.emptyBody}</p>
        <Command text={t.jobsPage.emptyCommand} />
      </Card>
    );
  }
  return (
    <Card title={t.overview.queues} isFlush actions={<Link to="/queues">{t.overview.allQueues}</Link>}>
      <Table
        caption={t.queuesPage.caption}
        head={
          <>
            <th>{columns.name}</th>
            <th class="right">{columns.due}</th>
            <th class="right">{columns.running}</th>
            <th>{columns.oldest}</th>
            <th class="right">{columns.workers}</th>
          </>
        }
      >
        {busiest.map((queue) => (
          <tr key={queue.name}>
            <td>
              <Link to={`/jobs?queue=${encodeURIComponent(queue.name)}`} class="strong">
                {queue.name}
              </Link>{" "}
              {queue.is_paused && <Lamp tone="warn">{t.queuesPage.paused}</Lamp>}
            </td>
            <td class="right">{t.count(queue.due)}</td>
            <td class="right">{t.count(queue.states.running ?? 0)}</td>
            <td class="number">
              <Ago at={queue.due_since} />
            </td>
            <td class={`right ${queue.live_workers === 0 && queue.due > 0 ? "bad" : ""}`}>{t.count(queue.live_workers)}</td>
          </tr>
        ))}
      </Table>
    </Card>
  );
}

function Failing() {
  const groups = useQuery("dead-groups", api.deadGroups, { every: 10 });
  return (
    <Card title={t.overview.failing} isFlush actions={<Link to="/dead">{t.overview.allDead}</Link>}>
      <Loaded query={groups}>
        {(data) =>
          data.items.length === 0 ? (
            <p class="faint card-body">{t.overview.failingNone}</p>
          ) : (
            <Table
              caption={t.deadPage.caption}
              head={
                <>
                  <th>{t.deadPage.columns.type}</th>
                  <th class="fill most">{t.deadPage.columns.error}</th>
                  <th class="right">{t.deadPage.columns.count}</th>
                  <th>{t.deadPage.columns.last}</th>
                </>
              }
            >
              {data.items.slice(0, 6).map((group) => (
                <tr key={group.type + group.fingerprint}>
                  <td>
                    <Link to={`/jobs?status=dead&type=${encodeURIComponent(group.type)}&fingerprint=${encodeURIComponent(group.fingerprint)}`} class="strong">
                      {group.type}
                    </Link>
                  </td>
                  <td class="fill most">
                    <div class="clip" title={group.error?.message}>{group.error?.message || group.error?.kind || t.deadPage.unknown}</div>
                  </td>
                  <td class="right">{t.count(group.count)}</td>
                  <td class="number">
                    <Ago at={group.last_at} />
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

function Workers() {
  const workers = useQuery("workers", api.workers, { every: 5 });
  return (
    <Card title={t.overview.workers} isFlush actions={<Link to="/workers">{t.overview.allWorkers}</Link>}>
      <Loaded query={workers}>
        {(data) => data.items.length === 0 ? (
          <div class="card-body">
            <p class="faint">{t.workersPage.emptyBody}</p>
            <Command text={t.workersPage.emptyCommand} />
          </div>
        ) : (
          <Table
            caption={t.workersPage.caption}
            head={
              <>
                <th>{t.workersPage.columns.name}</th>
                <th>{t.workersPage.columns.state}</th>
                <th>{t.workersPage.columns.busy}</th>
              </>
            }
          >
            {data.items.slice(0, 6).map((worker) => (
              <tr key={worker.boot_id}>
                <td>
                  <div class="clip strong">{worker.worker_id}</div>
                </td>
                <td>
                  <Lamp tone={!worker.is_alive ? "bad" : worker.is_draining ? "warn" : "good"}>
                    {!worker.is_alive ? t.workersPage.stale : worker.is_draining ? t.workersPage.draining : t.workersPage.alive}
                  </Lamp>
                </td>
                <td>
                  <Meter value={worker.busy} max={worker.slots} label={t.workersPage.slots(worker.busy, worker.slots)} />
                  {worker.busy}/{worker.slots}
                </td>
              </tr>
            ))}
          </Table>
        )}
      </Loaded>
    </Card>
  );
}
