/** The typed client of Rota's HTTP API. All requests of the dashboard go through here. */

import { batch, signal } from "@preact/signals";
import type { Filter } from "./lib/filter.ts";
import { queryOf } from "./lib/filter.ts";
import type { PayloadSchema } from "./lib/schema.ts";
import { parseJson, RawJson, writeJson } from "./lib/json.ts";
import { apiBase } from "./lib/router.ts";

export const STATES = [
  "blocked", "scheduled", "pending", "queued", "running", "retrying", "completed", "dead", "cancelled",
] as const; // prettier-ignore
export type State = (typeof STATES)[number];
export const FINISHED: readonly State[] = ["completed", "dead", "cancelled"];

export interface ErrorForm {
  kind?: string;
  message?: string;
  traceback?: string;
}
export interface Job {
  id: string;
  type: string;
  status: State;
  payload?: RawJson;
  result?: RawJson;
  queue: string;
  priority: number;
  attempts: number;
  max_attempts: number;
  worker_id: string | null;
  fence: number;
  run_at: string;
  created_at: string;
  updated_at: string;
  started_at: string | null;
  completed_at: string | null;
  error: ErrorForm | null;
  reason?: string | null;
  crashes?: number;
  delivery?: string;
  timeout?: number | null;
  expires_at?: string | null;
  lease_until?: string | null;
  cancel_requested_at?: string | null;
  idempotency_key?: string | null;
  tags?: string[];
  meta?: Record<string, string>;
  blockers?: number;
  parent_id?: string | null;
  retried_from?: string | null;
  schedule_id?: string | null;
  fire_time?: string | null;
  on_success?: { type: string } | null;
  on_failure?: { type: string } | null;
  /** Set where an id turns out to be a schedule's. */
  cron?: string;
}
export interface Page<T> {
  items: T[];
  next_cursor: string | null;
  /** Whether the search took long and goes on at the cursor. */
  partial?: boolean;
}
export interface Attempt {
  fence: number;
  worker_id: string;
  boot_id: string;
  started_at: string;
  ended_at: string | null;
  event: string | null;
  error: ErrorForm | null;
  progress: ProgressReport | string | null;
  log_tail: string | null;
}
export interface ProgressReport {
  done: number;
  total?: number | null;
  message?: string;
  at?: string | null;
}
export interface LogLine {
  number: number;
  at: string | null;
  level: string;
  logger: string | null;
  message: string;
}
export interface Log {
  attempt: number;
  attempts: number;
  is_running: boolean;
  items: LogLine[];
  encrypted: string | null;
}
export interface Reason {
  code: string;
  text: string;
  fix: string;
  evidence: RawJson;
}
export interface Step {
  key: string;
  began_under: number;
  began_at: string;
  ended_at: string | null;
  result: RawJson;
  kind: "effect" | "sleep" | "event" | "call";
  until: string | null;
  subject: string | null;
}
export interface LaneCount {
  queue: string;
  type: string;
  state: State;
  count: number;
  due_since?: string | null;
}
export interface Stats {
  timestamp: string;
  queue_depth: number;
  due: number;
  running: number;
  worker_utilization: number;
  dlq_size: number;
  workers: number;
  slots: number;
  busy: number;
  states: Partial<Record<State, number>>;
  pruned: Partial<Record<State, number>>;
  lanes: LaneCount[];
}
export interface Queue {
  name: string;
  depth: number;
  due: number;
  due_since: string | null;
  states: Partial<Record<State, number>>;
  types: { type: string; states: Partial<Record<State, number>> }[];
  types_left_out: number;
  live_workers: number;
  is_paused: boolean;
  paused_at: string | null;
  pause_reason: string | null;
  resume_at: string | null;
  max_depth: number | null;
  max_running: number | null;
  version: number;
  slots: number;
  paused_by: string | null;
  rate_in: number | null;
  rate_out: number | null;
  drain_seconds: number | null;
}
/** How many jobs may run at once, and how often they may start. */
export interface Limit {
  name: string;
  max_running: number | null;
  rate_limit: string | null;
  per_key_max_running: number | null;
  per_key_rate_limit: string | null;
  weight: number | null;
  order: string | null;
  on_full: string | null;
  closed_until: string | null;
  reason: string | null;
  app: string | null;
  breaker: string | null;
}
export interface LimitUse extends Limit {
  running: number;
  holders: string[];
  waiting: number;
  waiting_is_more: boolean;
  opens_at: string | null;
}
/** A circuit breaker: whether the jobs of a dependency start, wait, or probe it. */
export interface Breaker {
  name: string;
  state: "closed" | "half_open" | "open";
  is_forced: boolean;
  open_until: string | null;
  reason: string | null;
  set_by: string;
  opened: number;
  calls: number;
  failed: number;
  failures: number;
  window: number;
  least: number;
  open_for: number;
  tasks: string[];
}
export interface Workflow {
  id: string;
  name: string;
  state: string;
  node_count: number;
  done: number;
  progress: Record<string, number>;
  created_at: string;
}
export interface WorkflowNode {
  name: string;
  job_id: string;
  after: (string | { node?: string | null; job?: string | null })[];
  state: State | null;
  reason: string | null;
  is_skipped: boolean;
  is_pruned: boolean;
  type: string | null;
  attempts: number;
  created_at: string | null;
  run_at: string | null;
  started_at: string | null;
  finished_at: string | null;
}
export interface WorkflowDetail extends Workflow {
  nodes: WorkflowNode[];
}
export interface Worker {
  worker_id: string;
  boot_id: string;
  role: "worker" | "scheduler" | "api";
  host: string;
  pid: number;
  version: string;
  address: string;
  queues: string[];
  types: string[] | null;
  slots: number;
  busy: number;
  is_draining: boolean;
  is_alive: boolean;
  started_at: string | null;
  seen_at: string | null;
  is_quiet: boolean;
  /** In cores. */
  cpu: number | null;
  /** In bytes. */
  rss: number | null;
  fds: number | null;
  threads_left_behind: number;
  /** Seconds that its clock is ahead of the store's. */
  clock_offset: number | null;
  jobs: string[];
  orders: { quiet: boolean; stop: boolean; stacks: number } | null;
}
export interface WorkerDetail extends Worker {
  stacks: string;
  stacks_at: string | null;
}
export type WorkerOrder = "quiet" | "resume" | "stop" | "stacks";
export interface Schedule {
  id: string;
  name: string;
  status: "active" | "paused" | "ended" | "cancelled";
  cron: string;
  zone: string;
  next_run_at: string | null;
  last_run_at: string | null;
  last_job_id: string | null;
  job: { type: string; payload: RawJson; queue?: string | null; priority?: number | null; max_attempts?: number | null };
  catch_up: string;
  overlap: string;
  jitter: number;
  grace: number;
  paused_at: string | null;
  pause_reason: string | null;
  app: string | null;
  version: number;
  created_at: string;
  updated_at: string;
}
export interface ScheduleRequest {
  name: string;
  cron: string;
  zone: string;
  overlap: string;
  catch_up: string;
  jitter: string | number;
  job: { type: string; payload: RawJson; queue?: string; priority?: number; max_attempts?: number };
}
export interface ClockChange {
  at: string;
  kind: "gap" | "overlap";
  local_time: string;
  text: string;
}
/** A past fire time with the job that it made. */
export interface RecentRun {
  fire_time: string;
  fate: string;
  job_id: string | null;
  state: State | null;
  started_at: string | null;
  late: number | null;
  duration: number | null;
}
export interface RecentRuns {
  schedule_id: string;
  name: string;
  runs: RecentRun[];
  lateness_p95: number | null;
}
export interface RelatedJob {
  id: string;
  need: string;
  is_met: boolean;
  type: string | null;
  state: State | null;
}
export interface Relations {
  after: RelatedJob[];
  after_count: number;
  followers: RelatedJob[];
  follower_count: number;
  workflow: { workflow_id: string; node: string; runs: string[] } | null;
}
export interface TypeForm {
  type: string;
  started: number;
  succeeded: number;
  failed: number;
  dead: number;
  failure_rate: number | null;
  wait: Percentiles;
  duration: Percentiles;
  live_workers: number;
}
export interface Histogram {
  by: "created" | "finished";
  since: string;
  /** Length of a bar in seconds. */
  step: number;
  counts: number[];
  partial: boolean;
}
export interface LedgerFilter {
  actor?: string;
  action?: string;
  target?: string;
  surface?: string;
}
export interface LedgerCheck {
  is_intact: boolean;
  is_complete: boolean;
  count: number;
  finding: string | null;
}
export interface StoreSizes {
  kind: string;
  tables: { name: string; bytes: number; rows: number | null }[];
  free_bytes: number | null;
  missing_migrations: string[];
  unknown_migrations: string[];
  /** Seconds by state; null for ever. */
  retention: Record<string, number | null>;
}
export interface Setting {
  name: string;
  value: string;
  origin: string;
  is_default: boolean;
}
export interface Check {
  code: string;
  status: "ok" | "info" | "warning" | "critical";
  text: string;
  fix: string;
  link: string;
}
export interface View {
  name: string;
  /** The query of the address. */
  query: string;
  is_shared: boolean;
  saved_by: string;
}
export interface Leaders {
  current_leader: string | null;
  items: { name: string; term: number; seen_at: string }[];
  since: string;
}
export interface TokenInfo {
  id: string;
  name: string;
  role: string;
  queues: string[];
  created_at: string;
  expires_at: string | null;
  is_live: boolean;
}
export interface Preview {
  cron: string;
  zone: string;
  times: string[];
  local_times: string[];
  clock_changes: ClockChange[];
}
export interface Forecast {
  until: string;
  items: { at: string; schedule_id: string; name: string }[];
  is_complete: boolean;
}
export interface Occurrence {
  fire_time: string;
  fate: string;
  job_id: string | null;
}
export interface LetterGroup {
  fingerprint: string;
  type: string;
  error: ErrorForm | null;
  count: number;
  first_at: string;
  last_at: string;
  example_id: string;
  tags: string[];
  /** How many died in each of the last 24 hours, oldest first. */
  trend: number[];
  note: LetterNote | null;
}
export interface LetterNote {
  text: string;
  set_by: string;
  set_at: string;
}
export interface LetterChoice {
  ids?: string[];
  fingerprint?: string;
  type?: string;
  all?: boolean;
  rate?: number;
}
export interface Entry {
  number: number;
  at: string | null;
  actor: string;
  action: string;
  target: string;
  origin: string;
  detail: string;
  digest: string;
  surface: string;
}
export interface Problem {
  code: string;
  text: string;
  fix: string;
}
export interface AttentionItem extends Problem {
  severity: "critical" | "warning" | "info";
  since: string | null;
  link: string;
}
export interface Attention {
  items: AttentionItem[];
  checked_at: string;
}
/** Counts of jobs in a span of time. */
export interface Tally {
  submitted: number;
  started: number;
  succeeded: number;
  failed: number;
  dead: number;
  lost: number;
}
export interface History {
  since: string;
  until: string;
  /** Length of a bucket in seconds. */
  step: number;
  buckets: (Tally & { at: string })[];
  total: Tally;
  percentiles: Record<"wait" | "duration" | "lateness", Percentiles>;
}
/** Seconds; null without values. */
export interface Percentiles {
  p50: number | null;
  p95: number | null;
  p99: number | null;
}
export interface Overview {
  is_idle: boolean;
  last_ended_at: string | null;
}
export interface Health {
  status: "healthy" | "degraded" | "unhealthy" | string;
  instance_id: string;
  is_leader: boolean;
  coordinator_health: boolean;
  store_health: boolean;
  store_writable: boolean;
  broker_health: boolean;
  problems: Problem[];
}
export interface System {
  version: string;
  instance_id: string;
  store: string;
  is_leader: boolean;
  current_leader: string | null;
  started_at: string;
  uptime: number;
  schedulers: string[];
  api_nodes: string[];
}
export interface Cluster {
  coordinator: string;
  coordinator_health: boolean;
  current_leader: string | null;
  term: number | null;
  members: Worker[];
  configuration: Record<string, string>;
}
export interface ActReply {
  items: { id: string; status: number; deed?: string; error?: { detail?: string; title: string } }[];
}

export type OperationAction = "retry" | "cancel" | "delete" | "run_now";
export interface OperationRequest {
  action: OperationAction;
  q?: string;
  ids?: string[];
  fingerprint?: string;
  arguments?: { rate?: number; canary?: number };
  dry_run?: boolean;
  start_after?: number;
}
/** An action on all jobs of a selection. */
export interface Operation {
  id: string | null;
  action: OperationAction;
  state: "waiting" | "running" | "completed" | "cancelled" | "stopped";
  matched: number;
  is_exact: boolean;
  done: number;
  refused: number;
  reason: string;
  q: string | null;
  id_count: number;
  rate: number | null;
  canary: number;
  by: string;
  created_at: string;
  ended_at: string | null;
  eta: string | null;
}

/** A refusal of the server, or that it could not be reached (status 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    readonly fix: string = "",
    readonly errors: { field: string; message: string }[] = [],
  ) {
    super(detail);
  }
}

/** Who the caller is, as the server says it. */
export interface Access {
  name: string;
  role: string;
  actions: string[];
  requires_token: boolean;
  read_only: boolean;
  session_expires_at: string | null;
}
export const access = signal<Access | null>(null);

/** Whether the caller may do something. As long as that is not known, everything is offered. */
export function may(action: string): boolean {
  const me = access.value;
  return me === null || (me.actions.includes(action) && (!me.read_only || action.endsWith(".read")));
}

/** Whether this browser has a session. The session itself is a cookie that no script can read. */
export const isSignedIn = signal(false);
/** How often someone signed in since the page was loaded. */
export const signIns = signal(0);
/** Whether the server has refused a request for want of a token. */
export const needsToken = signal(false);

/** Begins a session with a token, or with a user's name and password, which are not kept; throws `ApiError` if the server refuses it. */
export async function signIn(credentials: string | { user: string; password: string }): Promise<void> {
  await fetchApi(
    "POST",
    "/v1/session",
    typeof credentials === "string" ? { headers: { Authorization: `Bearer ${credentials}` } } : { body: credentials },
  );
  batch(() => {
    signIns.value += 1;
    isSignedIn.value = true;
    needsToken.value = false;
  });
  void lookForSession().catch(() => undefined);
}

/** Asks the server who this browser is, and what it may do. */
export async function lookForSession(): Promise<void> {
  const me = await get<Access>("/v1/me");
  batch(() => {
    access.value = me;
    isSignedIn.value = me.session_expires_at !== null;
  });
}

/** Ends the session. */
export async function signOut(): Promise<void> {
  await fetchApi("DELETE", "/v1/session").catch(() => undefined);
  location.reload();
}

interface Options {
  body?: unknown;
  raw?: readonly string[];
  signal?: AbortSignal;
  headers?: Record<string, string>;
}

/** Responses that had an ETag, so that polling costs nothing while nothing changes: those of the last pages. */
const cached = new Map<string, { etag: string; text: string }>();
const MOST_CACHED = 60;

/** Makes a request; throws `ApiError` for a refusal. */
export async function fetchApi(method: string, path: string, options: Options = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  headers.set("Rota-Client", "ui");
  const request: RequestInit = { method, headers, cache: "no-store", credentials: "same-origin" };
  if (options.signal) request.signal = options.signal;
  if (options.body !== undefined) {
    headers.set("Content-Type", "application/json");
    request.body = writeJson(options.body);
  }
  let response: Response;
  try {
    response = await fetch(new URL(path.replace(/^\//, ""), apiBase), request);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, "unreachable", "The server does not answer.", "See whether it runs, and its log.");
  }
  if (!response.ok && response.status !== 304) throw await refusalOf(response);
  return response;
}

async function refusalOf(response: Response): Promise<ApiError> {
  if (response.status === 401) needsToken.value = true;
  const problem = (await response.json().catch(() => ({}))) as Partial<Record<string, unknown>>;
  const errors = Array.isArray(problem["errors"]) ? (problem["errors"] as { field: string; message: string }[]) : [];
  const detail = String(problem["detail"] ?? problem["title"] ?? `The server answered ${response.status}.`);
  return new ApiError(response.status, String(problem["code"] ?? ""), detail, String(problem["fix"] ?? ""), errors);
}

async function request<T>(method: string, path: string, options: Options = {}): Promise<T> {
  const known = method === "GET" ? cached.get(path) : undefined;
  const headers = known ? { ...options.headers, "If-None-Match": known.etag } : options.headers;
  const response = await fetchApi(method, path, headers ? { ...options, headers } : options);
  const text = response.status === 304 && known ? known.text : await response.text();
  const etag = response.headers.get("ETag");
  if (method === "GET" && etag) {
    // Set anew, so that the path used longest ago is the first.
    cached.delete(path);
    cached.set(path, { etag, text });
    const [oldest] = cached.keys();
    if (cached.size > MOST_CACHED && oldest !== undefined) cached.delete(oldest);
  }
  return (text === "" ? undefined : parseJson(text, options.raw)) as T;
}

function get<T>(path: string, signal?: AbortSignal, raw: readonly string[] = []): Promise<T> {
  return request<T>("GET", path, signal ? { raw, signal } : { raw });
}

function post<T>(path: string, body?: unknown, raw: readonly string[] = []): Promise<T> {
  return request<T>("POST", path, body === undefined ? { raw } : { body, raw });
}

const part = encodeURIComponent;
/** A slash in the name of a limit is encoded twice, since it would end a segment of the path. */
const limitPart = (name: string): string => part(name.replaceAll("/", "%2F"));
const PAYLOADS = ["payload", "result"];
const SCHEDULE = ["payload"];

export const api = {
  health: (signal?: AbortSignal) => get<Health>("/health", signal),
  attention: (signal?: AbortSignal) => get<Attention>("/v1/attention", signal),
  overview: (signal?: AbortSignal) => get<Overview>("/v1/overview", signal),
  history: (since: string, step: string, signal?: AbortSignal) => get<History>(`/v1/stats/history?since=${since}&step=${step}`, signal),
  system: (signal?: AbortSignal) => get<System>("/v1/system", signal),
  cluster: (signal?: AbortSignal) => get<Cluster>("/v1/cluster", signal),
  stats: (signal?: AbortSignal) => get<Stats>("/v1/stats", signal),

  jobs: (filter: Filter, cursor: string | null, limit: number, signal?: AbortSignal) => {
    const query = queryOf(filter);
    query.set("limit", String(limit));
    if (cursor) query.set("cursor", cursor);
    return get<Page<Job>>(`/v1/jobs?${query}`, signal);
  },
  job: (id: string, signal?: AbortSignal) => get<Job>(`/v1/jobs/${part(id)}`, signal, PAYLOADS),
  logs: (id: string, attempt: number, signal?: AbortSignal) => get<Log>(`/v1/jobs/${part(id)}/logs?attempt=${attempt}`, signal),
  attempts: (id: string, signal?: AbortSignal) => get<{ items: Attempt[] }>(`/v1/jobs/${part(id)}/attempts`, signal),
  explain: (id: string, signal?: AbortSignal) =>
    get<{ state: State; reasons: Reason[] }>(`/v1/jobs/${part(id)}/explain`, signal, ["evidence"]),
  relations: (id: string, signal?: AbortSignal) => get<Relations>(`/v1/jobs/${part(id)}/relations`, signal),
  resolveStep: (id: string, key: string, happened: boolean, result: RawJson | null) =>
    post<unknown>(`/v1/jobs/${part(id)}/steps:resolve`, { key, happened, ...(result === null ? {} : { result }) }),
  types: (signal?: AbortSignal) => get<{ items: TypeForm[] }>("/v1/types?limit=500", signal),
  type: (name: string, signal?: AbortSignal) => get<TypeForm & { payload_schema: PayloadSchema | null }>(`/v1/types/${part(name)}`, signal),
  histogram: (q: string, signal?: AbortSignal) => get<Histogram>(`/v1/jobs:histogram?q=${part(q)}`, signal),
  duplicate: (id: string) => post<Job>(`/v1/jobs/${part(id)}/duplicate`, undefined, PAYLOADS),
  steps: (id: string, signal?: AbortSignal) => get<{ items: Step[] }>(`/v1/jobs/${part(id)}/steps`, signal, ["result"]),
  submit: (body: unknown) => post<Job>("/v1/jobs", body, PAYLOADS),
  actOnJob: (id: string, action: JobAction) => post<Job>(`/v1/jobs/${part(id)}/${action}`, undefined, PAYLOADS),
  editJob: (id: string, changes: unknown) => request<Job>("PATCH", `/v1/jobs/${part(id)}`, { body: changes, raw: PAYLOADS }),
  retryWith: (id: string, changes: unknown) => post<Job>(`/v1/jobs/${part(id)}/retry`, changes, PAYLOADS),
  actOnJobs: (ids: string[], action: JobAction) => post<ActReply>(`/v1/jobs:${action}`, { ids }),

  suggest: (field: string, prefix: string, signal?: AbortSignal) =>
    get<{ items: string[] }>(`/v1/suggest?field=${part(field)}&prefix=${part(prefix)}&limit=10`, signal),
  operate: (body: OperationRequest) => post<Operation>("/v1/operations", body),
  operations: (signal?: AbortSignal) => get<Page<Operation>>("/v1/operations?limit=20", signal),
  operation: (id: string, signal?: AbortSignal) => get<Operation>(`/v1/operations/${part(id)}`, signal),
  cancelOperation: (id: string) => post<Operation>(`/v1/operations/${part(id)}/cancel`),

  queues: (signal?: AbortSignal) => get<Page<Queue>>("/v1/queues?limit=500", signal),
  pauseQueue: (name: string, reason: string, resumeAt: string | null) =>
    post<Queue>(`/v1/queues/${part(name)}/pause`, resumeAt ? { reason, resume_at: resumeAt } : { reason }),
  resumeQueue: (name: string) => post<Queue>(`/v1/queues/${part(name)}/resume`),

  limits: (signal?: AbortSignal) => get<Page<Limit>>("/v1/limits?limit=500", signal),
  limit: (name: string, signal?: AbortSignal) => get<LimitUse>(`/v1/limits/${limitPart(name)}`, signal),
  putLimit: (name: string, body: unknown) => request<LimitUse>("PUT", `/v1/limits/${limitPart(name)}`, { body }),
  deleteLimit: (name: string) => request<LimitUse>("DELETE", `/v1/limits/${limitPart(name)}`),
  closeLimit: (name: string, reason: string, until: string | null) => post<LimitUse>(`/v1/limits/${limitPart(name)}/close`, until ? { reason, until } : { reason }),
  breakers: (signal?: AbortSignal) => get<Page<Breaker>>("/v1/breakers?limit=500", signal),
  openBreaker: (name: string, reason: string, openFor: string | null) =>
    post<Breaker>(`/v1/breakers/${limitPart(name)}/open`, openFor ? { reason, open_for: openFor } : { reason }),
  closeBreaker: (name: string, reason: string) => post<Breaker>(`/v1/breakers/${limitPart(name)}/close`, { reason }),
  resetBreaker: (name: string) => post<Breaker>(`/v1/breakers/${limitPart(name)}/reset`),
  openLimit: (name: string) => post<LimitUse>(`/v1/limits/${limitPart(name)}/open`),

  workflows: (signal?: AbortSignal) => get<Page<Workflow>>("/v1/workflows?limit=100", signal),
  workflow: (id: string, signal?: AbortSignal) => get<WorkflowDetail>(`/v1/workflows/${part(id)}`, signal),
  cancelWorkflow: (id: string) => post<Workflow>(`/v1/workflows/${part(id)}/cancel`),
  retryWorkflow: (id: string, node: string | null) => post<Workflow>(`/v1/workflows/${part(id)}/retry`, node === null ? undefined : { node }),
  skipNode: (id: string, node: string) => post<Workflow>(`/v1/workflows/${part(id)}/skip`, { node }),

  schedules: (signal?: AbortSignal) => get<Page<Schedule>>("/v1/schedules?limit=500", signal, SCHEDULE),
  schedule: (id: string, signal?: AbortSignal) => get<Schedule>(`/v1/schedules/${part(id)}`, signal, SCHEDULE),
  createSchedule: (body: ScheduleRequest) => post<Schedule>("/v1/schedules", body, SCHEDULE),
  editSchedule: (id: string, version: number, body: ScheduleRequest) =>
    request<Schedule>("PATCH", `/v1/schedules/${part(id)}`, {
      body,
      raw: SCHEDULE,
      headers: { "If-Match": `"${version}"` },
    }),
  deleteSchedule: (id: string) => request<void>("DELETE", `/v1/schedules/${part(id)}`),
  pauseSchedule: (id: string, reason: string) => post<Schedule>(`/v1/schedules/${part(id)}/pause`, { reason }, SCHEDULE),
  resumeSchedule: (id: string) => post<Schedule>(`/v1/schedules/${part(id)}/resume`, undefined, SCHEDULE),
  skipSchedule: (id: string) => post<Schedule>(`/v1/schedules/${part(id)}/skip`, undefined, SCHEDULE),
  runSchedule: (id: string) => post<Job>(`/v1/schedules/${part(id)}/run-now`, undefined, PAYLOADS),
  backfill: (id: string, from: string, to: string) =>
    post<{ jobs: string[] }>(`/v1/schedules/${part(id)}/backfill`, { from, to }),
  preview: (cron: string, zone: string, count: number, after: string | null = null, signal?: AbortSignal) =>
    request<Preview>("POST", "/v1/schedules:preview", {
      body: { cron, zone, count, ...(after ? { after } : {}) },
      ...(signal ? { signal } : {}),
    }),
  recentRuns: (count: number, signal?: AbortSignal) => get<{ items: RecentRuns[]; next_cursor: string | null }>(`/v1/schedules:recent?count=${count}&limit=100`, signal),
  backfillTimes: async (id: string, from: string, to: string) =>
    (await post<{ times: string[] }>(`/v1/schedules/${part(id)}/backfill`, { from, to, dry_run: true })).times,
  forecast: (hours: number, signal?: AbortSignal) => get<Forecast>(`/v1/schedules/forecast?hours=${hours}`, signal),
  occurrences: (id: string, limit: number, signal?: AbortSignal) =>
    get<Page<Occurrence>>(`/v1/schedules/${part(id)}/occurrences?limit=${limit}`, signal),

  worker: (name: string, signal?: AbortSignal) => get<WorkerDetail>(`/v1/workers/${part(name)}`, signal),
  orderWorker: (name: string, verb: WorkerOrder) => post<Worker>(`/v1/workers/${part(name)}/${verb}`),
  forgetWorker: (name: string) => request<null>("DELETE", `/v1/workers/${part(name)}`),
  workers: (signal?: AbortSignal) => get<Page<Worker>>("/v1/workers?all=true&limit=500", signal),

  deadGroups: (signal?: AbortSignal) =>
    get<{ items: LetterGroup[]; is_complete: boolean }>("/v1/dead-letters/groups", signal),
  retryDead: (choice: LetterChoice) =>
    post<{ done: number; refused: unknown[]; is_going_on: boolean }>("/v1/dead-letters:retry", choice),
  discardDead: (choice: LetterChoice) =>
    post<{ done: number; refused: unknown[] }>("/v1/dead-letters:discard", choice),
  setDeadNote: (type: string, fingerprint: string, text: string) =>
    request<LetterNote>("PUT", "/v1/dead-letters/groups/note", { body: { type, fingerprint, text } }),
  removeDeadNote: (type: string, fingerprint: string) =>
    request<null>("DELETE", `/v1/dead-letters/groups/note?type=${part(type)}&fingerprint=${part(fingerprint)}`),
  exportDead: () => fetchApi("GET", "/v1/dead-letters/export"),

  events: (filter: LedgerFilter, cursor: string | null, signal?: AbortSignal) =>
    get<Page<Entry>>(`/v1/events?${new URLSearchParams({ limit: "100", ...filter, ...(cursor ? { cursor } : {}) })}`, signal),
  exportEvents: (filter: LedgerFilter) => fetchApi("GET", `/v1/events:export?${new URLSearchParams({ ...filter })}`),
  verifyLedger: () => get<LedgerCheck>("/v1/events:verify"),
  storeSizes: (signal?: AbortSignal) => get<StoreSizes>("/v1/system/store", signal),
  settings: (signal?: AbortSignal) => get<{ instance_id: string; items: Setting[] }>("/v1/system/config", signal),
  checks: (signal?: AbortSignal) => get<{ items: Check[] }>("/v1/system/doctor", signal),
  leaders: (signal?: AbortSignal) => get<Leaders>("/v1/system/leaders", signal),
  views: (signal?: AbortSignal) => get<{ items: View[] }>("/v1/views", signal),
  saveView: (name: string, query: string, isShared: boolean) => request<View>("PUT", `/v1/views/${part(name)}`, { body: { query, is_shared: isShared } }),
  removeView: (view: View) => request<null>("DELETE", `/v1/views/${part(view.name)}?is_shared=${view.is_shared}`),
  transferLead: (to: string) => post<{ current_leader: string; previous_leader: string }>("/v1/cluster/leader:transfer", { to }),
  tokens: (signal?: AbortSignal) => get<{ items: TokenInfo[] }>("/v1/tokens", signal),
  stream: (signal: AbortSignal, lastEvent: string | null, topics: string) =>
    fetchApi("GET", `/v1/events/stream?topics=${part(topics)}`, {
      signal,
      headers: { Accept: "text/event-stream", ...(lastEvent ? { "Last-Event-ID": lastEvent } : {}) },
    }),
};

export type JobAction = "retry" | "cancel" | "run-now";
