/** One job: its state, why it is there, its attempts, its data, and what can be done about it. */

import { useEffect, useState } from "preact/hooks";
import { api, type Attempt, FINISHED, type Job, type JobAction, isSignedIn, type ProgressReport, type Reason, type Step } from "../api.ts";
import { Ago, Card, Json, Lamp, Link, Loaded, Moment, Remedy, StateBadge, Table, Took } from "../components/basics.tsx";
import { Gantt } from "../components/charts.tsx";
import { AttemptErrors } from "../components/attempt_errors.tsx";
import { CopyAs, copyText } from "../components/copy.tsx";
import { ask } from "../components/dialog.tsx";
import { EditForm } from "../components/edit_form.tsx";
import { Icon } from "../components/icons.tsx";
import { act, actionsOf, ICONS, LABELS, NEEDS } from "../components/job_actions.tsx";
import { AuditCard, RelationsCard, TypeCard } from "../components/job_context.tsx";
import { Permitted } from "../components/permitted.tsx";
import { payloadOf } from "../components/submit_form.tsx";
import { attempt, toast } from "../components/toasts.tsx";
import { zone } from "../lib/preferences.ts";
import { useQuery } from "../lib/query.ts";
import { apiBase, navigate } from "../lib/router.ts";
import { jobSnippets } from "../lib/snippets.ts";
import { clock, duration } from "../lib/time.ts";
import { t } from "../strings.ts";

export default function JobPage({ id }: { id: string }) {
  return <JobView key={id} id={id} />;
}

interface Whole {
  job: Job;
  attempts: Attempt[];
}

async function load(id: string, signal: AbortSignal): Promise<Whole> {
  const job = await api.job(id, signal);
  if (job.cron !== undefined) return { job, attempts: [] };
  return { job, attempts: (await api.attempts(id, signal)).items };
}

/** The same view on a page of its own and in the drawer beside the list. */
export function JobView({ id, onClose }: { id: string; onClose?: () => void }) {
  const [isFinished, setFinished] = useState(false);
  const whole = useQuery(`job ${id}`, (signal) => load(id, signal), {
    topic: `job:${id}`,
    every: isFinished ? 15 : 5,
  });
  const status = whole.data?.job.status;
  useEffect(() => setFinished(status !== undefined && FINISHED.includes(status)), [status]);
  return (
    <Loaded query={whole}>
      {({ job, attempts }) =>
        job.cron === undefined ? (
          <>
            <Head job={job} {...(onClose ? { onClose } : {})} onChange={whole.reload} />
            <Card>
              <Strip job={job} />
            </Card>
            <Why job={job} />
            <AttemptErrors job={job} attempts={attempts} />
            <Attempts job={job} attempts={attempts} />
            {attempts.length > 0 && <Logs job={job} attempts={attempts} />}
            <Data job={job} />
            <Steps job={job} />
            <RelationsCard job={job} />
            <Details job={job} />
            <TypeCard job={job} attempts={attempts} />
            <AuditCard job={job} />
          </>
        ) : (
          <div class="empty">
            <h1>{t.job.isSchedule}</h1>
            <Link to={`/schedules/${id}`}>{t.job.toSchedule}</Link>
          </div>
        )
      }
    </Loaded>
  );
}

function Head({ job, onClose, onChange }: { job: Job; onClose?: () => void; onChange: () => void }) {
  const origin = apiBase.href.replace(/\/$/, "");
  const possible = actionsOf(job);
  const [isEditing, setEditing] = useState(false);
  const canEdit = job.payload !== undefined && !["running", "queued"].includes(job.status);
  const button = (action: JobAction) => (
    <Permitted key={action} needs={NEEDS[action]} class={action === "cancel" ? "danger" : action === possible[0] ? "primary" : ""} onClick={() => void act([job.id], action).then((isDone) => isDone && onChange())}>
      <Icon name={ICONS[action]} /> {LABELS[action]}
    </Permitted>
  );
  const Title = onClose ? "h2" : "h1";
  return (
    <header class="job-head">
      <Title tabIndex={-1}>{job.type}</Title>
      <StateBadge state={job.status} />
      <span class="job-id">
        <code>{job.id}</code>
        <button type="button" class="quiet" aria-label={`${t.copy} ${job.id}`} onClick={() => void copyText(job.id)}>
          <Icon name="copy" size={14} />
        </button>
      </span>
      <div class="page-actions">
        {possible.map(button)}
        {canEdit && (
          <Permitted needs="jobs.edit" onClick={() => setEditing(true)}>
            <Icon name="edit" /> {FINISHED.includes(job.status) ? t.editForm.retry : t.editForm.edit}
          </Permitted>
        )}
        {WAITS.includes(job.status) && (
          <Permitted needs="jobs.edit" onClick={() => void snooze(job).then((isDone) => isDone && onChange())}>
            <Icon name="schedules" /> {t.job.snooze}
          </Permitted>
        )}
        {job.payload !== undefined && (
          <Permitted needs="jobs.edit" onClick={() => void duplicate(job)}>
            <Icon name="plus" /> {t.job.duplicate}
          </Permitted>
        )}
        {isEditing && <EditForm job={job} onClose={() => setEditing(false)} onDone={onChange} />}
        <CopyAs snippets={() => jobSnippets(origin, job.id, possible[0] ?? "get", isSignedIn.value)} />
        {onClose && (
          <>
            <Link to={`/jobs/${job.id}`} class="button" title={t.job.openPage} aria-label={t.job.openPage}>
              <Icon name="external" />
            </Link>
            <button type="button" class="quiet" aria-label={t.job.close} onClick={onClose}>
              <Icon name="close" />
            </button>
          </>
        )}
      </div>
    </header>
  );
}

/** States in which a job waits and can be put off. */
const WAITS: readonly Job["status"][] = ["pending", "scheduled", "retrying"];

/** Puts a waiting job off. */
async function snooze(job: Job): Promise<boolean> {
  const answer = await ask({ title: t.job.snoozeTitle, body: t.job.snoozeBody, action: t.job.snooze, field: { label: t.submitForm.delay, hint: t.job.snoozeHint, value: "15m" } });
  return answer !== null && attempt(() => api.editJob(job.id, { delay: answer.text }), () => t.job.snoozed(answer.text));
}

/** Submits the same job once more and goes to it. */
async function duplicate(job: Job): Promise<void> {
  if ((await ask({ title: t.job.duplicateTitle, body: t.job.duplicateBody, action: t.job.duplicate })) === null) return;
  await attempt(async () => {
    const made = await api.duplicate(job.id);
    navigate(`/jobs/${made.id}`);
    return made;
  }, (made) => t.editForm.made(made.id));
}

function Strip({ job }: { job: Job }) {
  const moments = [job.created_at, job.run_at, job.started_at, job.completed_at];
  const isDue = new Date(job.run_at).getTime() <= Date.now();
  const reached = [true, isDue, job.started_at !== null, FINISHED.includes(job.status)];
  const last = reached.lastIndexOf(true);
  return (
    <ol class={`strip ${job.status}`}>
      {t.job.steps.map((name, index) => (
        <li key={name} class={`${index <= last ? "reached" : ""} ${index === last ? "last" : ""}`}>
          <strong>{name}</strong>
          <Moment at={index === 1 || reached[index] ? moments[index] : null} />
          {reached[index] && (
            <div class="faint">
              <Ago at={moments[index]} fallback="" />
            </div>
          )}
        </li>
      ))}
    </ol>
  );
}

function Why({ job }: { job: Job }) {
  const why = useQuery(`explain ${job.id} ${job.status} ${job.fence}`, (signal) => api.explain(job.id, signal), { topic: `job:${job.id}`, every: 5 });
  return (
    <Card title={FINISHED.includes(job.status) ? t.job.whyDone : t.job.why} class="why">
      <Loaded query={why}>
        {(data) => (
          <ul>
            {data.reasons.map((reason) => (
              <li key={reason.code}>
                <div>
                  <strong class="sentence">{reason.text}</strong> <span class="reason-code">{reason.code}</span>
                </div>
                {reason.fix && (
                  <div class="fix">
                    {t.job.fix}: <Remedy text={reason.fix} />
                  </div>
                )}
                {workflowOf(reason) && (
                  <div>
                    <Link to={`/workflows/${workflowOf(reason)}`}>{t.job.workflow}</Link>
                  </div>
                )}
                {reason.evidence.text !== "{}" && (
                  <details>
                    <summary>{t.job.evidence}</summary>
                    <Json text={reason.evidence.text} label={t.job.evidence} />
                  </details>
                )}
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </Card>
  );
}

/** The workflow of a job that has ended, which its explanation names. */
function workflowOf(reason: Reason): string | null {
  const workflow = (JSON.parse(reason.evidence.text) as { workflow?: unknown }).workflow;
  return reason.code.startsWith("ended_") && typeof workflow === "string" ? workflow : null;
}

function Attempts({ job, attempts }: { job: Job; attempts: Attempt[] }) {
  const last = attempts[attempts.length - 1];
  return (
    <Card title={t.job.timeline} hint={`${job.attempts}/${job.max_attempts}`}>
      {attempts.length === 0 ? (
        <p class="faint">{t.job.noAttempts}</p>
      ) : (
        <>
          {last?.progress && <Progress report={last.progress} />}
          <Gantt job={job} attempts={attempts} />
          <div class="legend" aria-hidden="true">
            <span><i class="swatch-wait" />{t.job.waited}</span>
            <span><i class="swatch-run" />{t.job.running}</span>
            <span><i class="swatch-good" />{t.job.outcomes["succeed"]}</span>
            <span><i class="swatch-bad" />{t.job.outcomes["fail"]}</span>
          </div>
          <AttemptTable attempts={attempts} />
        </>
      )}
    </Card>
  );
}

/** Progress as handlers report it: a number of a total and a message, or any text. */
function Progress({ report }: { report: ProgressReport | string }) {
  const isText = typeof report === "string";
  const share = isText || !report.total ? null : Math.min(Math.max(report.done / report.total, 0), 1);
  const text = isText ? report : t.job.progressText(report.done, report.total ?? null, report.message ?? "");
  return (
    <div class="field">
      <strong>{t.job.progress}</strong> <span class="faint">{text}</span>
      {share !== null && (
        <div class="progress" role="progressbar" aria-label={t.job.progress} aria-valuenow={Math.round(share * 100)} aria-valuemin={0} aria-valuemax={100}>
          <span style={{ width: `${share * 100}%` }} />
        </div>
      )}
    </div>
  );
}

function AttemptTable({ attempts }: { attempts: Attempt[] }) {
  return (
    <Table
      isCards
      caption={t.job.timeline}
      head={
        <>
          <th class="right">#</th>
          <th>{t.job.outcome}</th>
          <th>{t.job.started}</th>
          <th class="right">{t.job.took}</th>
          <th>{t.job.worker}</th>
          <th>{t.job.error}</th>
        </>
      }
    >
      {attempts.map((one, index) => (
        <tr key={one.fence}>
          <td class="right">{index + 1}</td>
          <td>{one.event === null ? <StateBadge state="running" /> : (t.job.outcomes[one.event] ?? one.event)}</td>
          <td class="number"><Moment at={one.started_at} /></td>
          <td class="right"><Took from={one.started_at} to={one.ended_at} /></td>
          <td><div class="clip">{one.worker_id}</div></td>
          <td>
            {one.error && <div class="clip" title={one.error.message}>{one.error.message || one.error.kind}</div>}
          </td>
        </tr>
      ))}
    </Table>
  );
}

/** What the handler logged in one attempt; read every second while it runs. */
function Logs({ job, attempts }: { job: Job; attempts: Attempt[] }) {
  const [chosen, setChosen] = useState(0);
  const isRunning = !FINISHED.includes(job.status) && (chosen === 0 || chosen === attempts.length);
  const log = useQuery(`logs ${job.id} ${chosen} ${job.status}`, (signal) => api.logs(job.id, chosen, signal), { topic: `job:${job.id}`, every: isRunning ? 5 : 60 });
  const first = log.data?.items[0];
  // Of a finished job that logged nothing there is nothing to say.
  if (FINISHED.includes(job.status) && attempts.length === 1 && log.data?.items.length === 0 && log.data.encrypted === null) return null;
  return (
    <Card title={t.job.log} hint={log.data?.is_running ? t.job.logLive : ""}>
      {attempts.length > 1 && (
        <label class="field">
          {t.job.attempt}{" "}
          <select value={chosen || attempts.length} onChange={(event) => setChosen(Number(event.currentTarget.value))}>
            {attempts.map((one, index) => (
              <option key={one.fence} value={index + 1}>{index + 1}</option>
            ))}
          </select>
        </label>
      )}
      <Loaded query={log}>
        {(data) =>
          data.encrypted !== null ? (
            <p class="faint">{t.job.logEncrypted} <code>rota jobs logs {job.id}</code></p>
          ) : data.items.length === 0 ? (
            <p class="faint">{t.job.logEmpty}</p>
          ) : (
            <>
              {first && first.number > 1 && <p class="faint">{t.job.logDropped(first.number - 1)}</p>}
              <div class="log" role="log" aria-label={t.job.log} tabIndex={0}>
                {data.items.map((line) => (
                  <div key={line.number} class={`log-line ${line.level}`}>
                    <span class="faint">{line.at ? clock(line.at, zone.value) : ""}</span> <span class="log-level">{line.level}</span>{" "}
                    {line.logger && <span class="faint">{line.logger} </span>}
                    <span class="log-message">{line.message}</span>
                  </div>
                ))}
              </div>
            </>
          )
        }
      </Loaded>
    </Card>
  );
}

function Data({ job }: { job: Job }) {
  return (
    <div class={job.result && job.status === "completed" ? "grid" : ""}>
      {job.payload && (
        <Card title={t.job.payload}>
          <Json text={job.payload.text} label={t.job.payload} />
        </Card>
      )}
      {job.result && job.status === "completed" && (
        <Card title={t.job.result}>
          <Json text={job.result.text} label={t.job.result} />
        </Card>
      )}
    </div>
  );
}

function Steps({ job }: { job: Job }) {
  const steps = useQuery(`steps ${job.id} ${job.fence} ${job.status}`, (signal) => api.steps(job.id, signal), { every: 10 });
  if (!steps.data?.items.length) return null;
  return (
    <Card title={t.job.guardedSteps} isFlush>
      <Table
        caption={t.job.guardedSteps}
        head={
          <>
            <th>{t.job.step}</th>
            <th>{t.job.began}</th>
            <th>{t.job.ended}</th>
            <th>{t.job.result}</th>
            <th>
              <span class="sr-only">{t.actions}</span>
            </th>
          </>
        }
      >
        {steps.data.items.map((step) => (
          <tr key={step.key}>
            <td class="strong">{step.key}</td>
            <td><Moment at={step.began_at} /></td>
            <td><StepEnd step={step} isRunning={job.status === "running"} /></td>
            <td>{step.ended_at && <code class="clip">{step.result.text}</code>}</td>
            <td class="actions">
              {isInDoubt(step, job) && (
                <>
                  <Permitted needs="steps.resolve" class="small" onClick={() => void resolve(job, step, true).then((isDone) => isDone && steps.reload())}>
                    {t.job.happened}
                  </Permitted>
                  <Permitted needs="steps.resolve" class="small" onClick={() => void resolve(job, step, false).then((isDone) => isDone && steps.reload())}>
                    {t.job.didNotHappen}
                  </Permitted>
                </>
              )}
            </td>
          </tr>
        ))}
      </Table>
    </Card>
  );
}

/** An effect began, its outcome was not written down, and nobody works on it: it may have happened or not. */
function isInDoubt(step: Step, job: Job): boolean {
  return step.kind === "effect" && step.ended_at === null && job.status !== "running";
}

/** When a step ended, or what it waits for. */
function StepEnd({ step, isRunning }: { step: Step; isRunning: boolean }) {
  if (step.ended_at) return <Moment at={step.ended_at} />;
  if (step.kind === "effect") return <Lamp tone={isRunning ? "busy" : "warn"}>{isRunning ? t.job.running : t.job.inDoubt}</Lamp>;
  return (
    <>
      {step.kind === "call" && step.subject ? <Link to={`/jobs/${step.subject}`}>{t.job.waitsForJob(step.subject)}</Link> : step.kind === "event" ? t.job.waitsForEvent(step.subject ?? "") : t.job.sleeps}{" "}
      {step.until && <Ago at={step.until} />}
    </>
  );
}

/** Says whether the effect of a step in doubt happened, as an operator has found out. */
async function resolve(job: Job, step: Step, happened: boolean): Promise<boolean> {
  const answer = await ask({
    title: happened ? t.job.happenedTitle(step.key) : t.job.didNotHappenTitle(step.key),
    body: happened ? t.job.happenedBody : t.job.didNotHappenBody,
    action: happened ? t.job.happened : t.job.didNotHappen,
    ...(happened ? { field: { label: t.job.result, hint: t.job.happenedHint, value: "null" } } : {}),
  });
  if (answer === null) return false;
  const result = happened ? payloadOf(answer.text) : null;
  if (happened && result === null) {
    toast(t.submitForm.wrongJson, "bad");
    return false;
  }
  return attempt(() => api.resolveStep(job.id, step.key, happened, result), () => t.job.resolved(step.key));
}

function Details({ job }: { job: Job }) {
  const f = t.job.fields;
  const link = (path: string, text: string) => <Link to={path}>{text}</Link>;
  const facts: [string, preact.ComponentChildren][] = [
    [f.queue, link(`/jobs?queue=${encodeURIComponent(job.queue)}`, job.queue)],
    [f.priority, job.priority],
    [f.worker, job.worker_id ? link(`/jobs?worker_id=${encodeURIComponent(job.worker_id)}`, job.worker_id) : null],
    [f.reason, job.reason],
    [f.waited, job.started_at ? duration(Math.max(new Date(job.started_at).getTime() - new Date(job.run_at).getTime(), 0)) : null],
    [f.timeout, job.timeout ? duration(job.timeout * 1_000) : null],
    [f.expires, job.expires_at ? <Moment at={job.expires_at} /> : null],
    [f.lease, job.lease_until ? <Ago at={job.lease_until} /> : null],
    [f.cancelRequested, job.cancel_requested_at ? <Moment at={job.cancel_requested_at} /> : null],
    [f.delivery, job.delivery],
    [f.key, job.idempotency_key],
    [f.crashes, job.crashes || null],
    [f.fence, job.fence],
    [f.parent, job.parent_id ? link(`/jobs/${job.parent_id}`, job.parent_id) : null],
    [f.retriedFrom, job.retried_from ? link(`/jobs/${job.retried_from}`, job.retried_from) : null],
    [f.schedule, job.schedule_id ? link(`/schedules/${job.schedule_id}`, job.schedule_id) : null],
    [f.fireTime, job.fire_time ? <Moment at={job.fire_time} /> : null],
    [f.onSuccess, job.on_success?.type],
    [f.onFailure, job.on_failure?.type],
    [f.tags, job.tags?.length ? job.tags.map((tag) => <Link key={tag} to={`/jobs?tag=${encodeURIComponent(tag)}`} class="tag">{tag}</Link>) : null],
    [f.meta, job.meta && Object.keys(job.meta).length ? Object.entries(job.meta).map(([name, value]) => <span key={name} class="tag">{name}: {value}</span>) : null],
  ]; // prettier-ignore
  return (
    <Card title={t.job.details}>
      <dl class="facts">
        {facts
          .filter(([, value]) => value !== null && value !== undefined && value !== "")
          .map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
      </dl>
    </Card>
  );
}
