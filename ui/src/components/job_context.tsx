/** What stands around a job: related jobs, how its type does, and what operators did to it. */

import { api, type Attempt, type Job, type RelatedJob } from "../api.ts";
import { useQuery } from "../lib/query.ts";
import { duration } from "../lib/time.ts";
import { t } from "../strings.ts";
import { Card, Link, Moment, StateBadge, Table } from "./basics.tsx";

const words = t.context;

/** The jobs before and after a job, the one it was made from, and the runs of its node. */
export function RelationsCard({ job }: { job: Job }) {
  const found = useQuery(`relations ${job.id} ${job.status}`, (signal) => api.relations(job.id, signal), { topic: `job:${job.id}`, every: 30 });
  const data = found.data;
  const made = job.parent_id || job.retried_from;
  if (!data || (!made && data.after.length === 0 && data.followers.length === 0 && data.workflow === null)) return null;
  return (
    <Card title={words.relations} isFlush>
      <Table
        caption={words.relations}
        isCards
        head={
          <>
            <th>{words.relation}</th>
            <th>{t.jobsPage.columns.type}</th>
            <th>{t.jobsPage.columns.state}</th>
            <th>{t.jobsPage.columns.id}</th>
          </>
        }
      >
        {job.parent_id && <Plain name={words.parent} id={job.parent_id} />}
        {job.retried_from && <Plain name={words.origin} id={job.retried_from} />}
        {data.after.slice(0, 20).map((one) => <Related key={one.id} name={words.after[one.need] ?? one.need} one={one} />)}
        {data.followers.slice(0, 20).map((one) => <Related key={one.id} name={words.followers[one.need] ?? one.need} one={one} />)}
        {data.workflow && (
          <tr>
            <td>{words.workflow}</td>
            <td>
              <Link to={`/workflows/${data.workflow.workflow_id}`}>{words.node(data.workflow.node)}</Link>
            </td>
            <td>{data.workflow.runs.length > 1 ? words.runs(data.workflow.runs.length) : ""}</td>
            <td />
          </tr>
        )}
      </Table>
      <More count={data.after_count - 20} />
      <More count={data.follower_count - 20} />
    </Card>
  );
}

function Plain({ name, id }: { name: string; id: string }) {
  return (
    <tr>
      <td>{name}</td>
      <td />
      <td />
      <td>
        <Link to={`/jobs/${id}`} class="mono">
          {id}
        </Link>
      </td>
    </tr>
  );
}

function Related({ name, one }: { name: string; one: RelatedJob }) {
  return (
    <tr>
      <td>{name}</td>
      <td class="strong">{one.type ?? words.pruned}</td>
      <td>{one.state && <StateBadge state={one.state} />}</td>
      <td>
        <Link to={`/jobs/${one.id}`} class="mono">
          {one.id}
        </Link>
      </td>
    </tr>
  );
}

function More({ count }: { count: number }) {
  return count > 0 ? <p class="faint card-body">{words.more(count)}</p> : null;
}

/** How the type of a job does, and how this run compares with the others. */
export function TypeCard({ job, attempts }: { job: Job; attempts: readonly Attempt[] }) {
  // The list, and not the one type: of a type that was not counted yet the server knows nothing.
  const found = useQuery("types", api.types, { every: 60 });
  const last = attempts[attempts.length - 1];
  const ran = last?.ended_at ? (new Date(last.ended_at).getTime() - new Date(last.started_at).getTime()) / 1_000 : null;
  const data = found.data?.items.find((one) => one.type === job.type);
  if (!data || data.started === 0) return null;
  const seconds = (value: number | null): string => (value === null ? t.none : `≤ ${duration(value * 1_000)}`);
  const facts: [string, preact.ComponentChildren][] = [
    [words.succeeded, t.count(data.succeeded)],
    [words.failedAttempts, `${t.count(data.failed)}${data.failure_rate === null ? "" : ` (${(data.failure_rate * 100).toFixed(1)} %)`}`],
    [words.died, data.dead ? <Link to={`/jobs?status=dead&type=${encodeURIComponent(job.type)}`}>{t.count(data.dead)}</Link> : "0"],
    [words.usual, `${seconds(data.duration.p50)} · ${seconds(data.duration.p95)} · ${seconds(data.duration.p99)}`],
    [words.waited, `${seconds(data.wait.p50)} · ${seconds(data.wait.p95)} · ${seconds(data.wait.p99)}`],
    [words.workers, t.count(data.live_workers)],
  ]; // prettier-ignore
  return (
    <Card title={words.type(job.type)} hint={<Link to={`/jobs?type=${encodeURIComponent(job.type)}`}>{t.nav.jobs}</Link>}>
      {ran !== null && <p class="field">{words.compared(duration(ran * 1_000), rank(ran, data.duration))}</p>}
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

function rank(ran: number, usual: { p50: number | null; p95: number | null; p99: number | null }): "fast" | "usual" | "slow" | "slowest" {
  if (usual.p50 !== null && ran <= usual.p50) return "fast";
  if (usual.p95 !== null && ran <= usual.p95) return "usual";
  return usual.p99 !== null && ran <= usual.p99 ? "slow" : "slowest";
}

/** What operators did to a job. Actions on many jobs at once have one entry, under the operation. */
export function AuditCard({ job }: { job: Job }) {
  const found = useQuery(`audit ${job.id}`, (signal) => api.events({ target: job.id }, null, signal), { topic: `job:${job.id}`, every: 30 });
  if (!found.data?.items.length) return null;
  return (
    <Card title={words.audit} isFlush>
      <Table
        caption={words.audit}
        head={
          <>
            <th>{t.eventsPage.columns.at}</th>
            <th>{t.eventsPage.columns.actor}</th>
            <th>{t.eventsPage.columns.action}</th>
            <th>{t.eventsPage.columns.detail}</th>
          </>
        }
      >
        {found.data.items.map((entry) => (
          <tr key={entry.number}>
            <td class="number">
              <Moment at={entry.at} />
            </td>
            <td>
              {entry.actor} <span class="faint">{entry.surface}</span>
            </td>
            <td class="strong">{entry.action}</td>
            <td>
              <div class="clip">{entry.detail}</div>
            </td>
          </tr>
        ))}
      </Table>
    </Card>
  );
}
