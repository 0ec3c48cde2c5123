/** The typed client of Rota's HTTP API. All requests of the dashboard go through here. */

import { batch, signal } from "@preact/signals";
import type { Filter } from "./lib/filter.ts";
import { queryOf } from "./lib/filter.ts";
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
}
export interface Attempt {
  fence: number;
  worker_id: string;
  boot_id: string;
  started_at: string;
  ended_at: string | null;
  event: string | null;
  error: ErrorForm | null;
  progress: string | null;
  log_tail: string | null;
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
  version: number;
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
}
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
export interface Preview {
  cron: string;
  zone: string;
  times: string[];
  local_times: string[];
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

const TOKEN_KEY = "rota.token";
/** The bearer token; empty for none. Kept for as long as the tab is open. */
export const token = signal(sessionStorage.getItem(TOKEN_KEY) ?? "");
/** Whether the server has refused a request for want of a token. */
export const needsToken = signal(false);

/** Remembers a token and tries again. */
export function setToken(value: string): void {
  if (value) sessionStorage.setItem(TOKEN_KEY, value);
  else sessionStorage.removeItem(TOKEN_KEY);
  batch(() => {
    token.value = value;
    needsToken.value = false;
  });
}

interface Options {
  body?: unknown;
  raw?: readonly string[];
  signal?: AbortSignal;
  headers?: Record<string, string>;
}

/** Responses that had an ETag, so that polling costs nothing while nothing changes. */
const cached = new Map<string, { etag: string; text: string }>();

/** Makes a request with the token; throws `ApiError` for a refusal. */
export async function fetchApi(method: string, path: string, options: Options = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  headers.set("Rota-Client", "ui");
  if (token.value) headers.set("Authorization", `Bearer ${token.value}`);
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
  if (method === "GET" && etag) cached.set(path, { etag, text });
  return (text === "" ? undefined : parseJson(text, options.raw)) as T;
}

function get<T>(path: string, signal?: AbortSignal, raw: readonly string[] = []): Promise<T> {
  return request<T>("GET", path, signal ? { raw, signal } : { raw });
}

function post<T>(path: string, body?: unknown, raw: readonly string[] = []): Promise<T> {
  return request<T>("POST", path, body === undefined ? { raw } : { body, raw });
}

const part = encodeURIComponent;
const PAYLOADS = ["payload", "result"];
const SCHEDULE = ["payload"];

export const api = {
  health: (signal?: AbortSignal) => get<Health>("/health", signal),
  attention: (signal?: AbortSignal) => get<Attention>("/v1/attention", signal),
  overview: (signal?: AbortSignal) => get<Overview>("/v1/overview", signal),
  history: (signal?: AbortSignal) => get<History>("/v1/stats/history?since=1h&step=1m", signal),
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
  attempts: (id: string, signal?: AbortSignal) => get<{ items: Attempt[] }>(`/v1/jobs/${part(id)}/attempts`, signal),
  explain: (id: string, signal?: AbortSignal) =>
    get<{ state: State; reasons: Reason[] }>(`/v1/jobs/${part(id)}/explain`, signal, ["evidence"]),
  steps: (id: string, signal?: AbortSignal) => get<{ items: Step[] }>(`/v1/jobs/${part(id)}/steps`, signal, ["result"]),
  submit: (body: unknown) => post<Job>("/v1/jobs", body, PAYLOADS),
  actOnJob: (id: string, action: JobAction) => post<Job>(`/v1/jobs/${part(id)}/${action}`, undefined, PAYLOADS),
  actOnJobs: (ids: string[], action: JobAction) => post<ActReply>(`/v1/jobs:${action}`, { ids }),

  suggest: (field: string, prefix: string, signal?: AbortSignal) =>
    get<{ items: string[] }>(`/v1/suggest?field=${part(field)}&prefix=${part(prefix)}&limit=10`, signal),
  operate: (body: OperationRequest) => post<Operation>("/v1/operations", body),
  operation: (id: string, signal?: AbortSignal) => get<Operation>(`/v1/operations/${part(id)}`, signal),
  cancelOperation: (id: string) => post<Operation>(`/v1/operations/${part(id)}/cancel`),

  queues: (signal?: AbortSignal) => get<Page<Queue>>("/v1/queues?limit=500", signal),
  pauseQueue: (name: string, reason: string, resumeAt: string | null) =>
    post<Queue>(`/v1/queues/${part(name)}/pause`, resumeAt ? { reason, resume_at: resumeAt } : { reason }),
  resumeQueue: (name: string) => post<Queue>(`/v1/queues/${part(name)}/resume`),

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
  runSchedule: (id: string) => post<Job>(`/v1/schedules/${part(id)}/run-now`, undefined, PAYLOADS),
  backfill: (id: string, from: string, to: string) =>
    post<{ jobs: string[] }>(`/v1/schedules/${part(id)}/backfill`, { from, to }),
  preview: (cron: string, zone: string, count: number, after: string | null = null, signal?: AbortSignal) =>
    request<Preview>("POST", "/v1/schedules:preview", {
      body: { cron, zone, count, ...(after ? { after } : {}) },
      ...(signal ? { signal } : {}),
    }),
  forecast: (hours: number, signal?: AbortSignal) => get<Forecast>(`/v1/schedules/forecast?hours=${hours}`, signal),
  occurrences: (id: string, limit: number, signal?: AbortSignal) =>
    get<Page<Occurrence>>(`/v1/schedules/${part(id)}/occurrences?limit=${limit}`, signal),

  workers: (signal?: AbortSignal) => get<Page<Worker>>("/v1/workers?all=true&limit=500", signal),

  deadGroups: (signal?: AbortSignal) =>
    get<{ items: LetterGroup[]; is_complete: boolean }>("/v1/dead-letters/groups", signal),
  retryDead: (choice: LetterChoice) =>
    post<{ done: number; refused: unknown[]; is_going_on: boolean }>("/v1/dead-letters:retry", choice),
  discardDead: (choice: LetterChoice) =>
    post<{ done: number; refused: unknown[] }>("/v1/dead-letters:discard", choice),
  exportDead: () => fetchApi("GET", "/v1/dead-letters/export"),

  events: (cursor: string | null, signal?: AbortSignal) =>
    get<Page<Entry>>(`/v1/events?limit=100${cursor ? `&cursor=${part(cursor)}` : ""}`, signal),
  stream: (signal: AbortSignal, lastEvent: string | null) =>
    fetchApi("GET", "/v1/events/stream", {
      signal,
      headers: { Accept: "text/event-stream", ...(lastEvent ? { "Last-Event-ID": lastEvent } : {}) },
    }),
};

export type JobAction = "retry" | "cancel" | "run-now";
