/**
 * The live connection: one stream of server-sent events for all pages.
 *
 * The stream begins with a snapshot of the counts and goes on with updates. A lost connection is made again after a
 * growing delay and resumes behind the last event; when that fails several times the counts are polled. While the tab
 * is hidden, or the person has paused it, there is no connection at all.
 */

import { batch, computed, effect, signal } from "@preact/signals";
import { api, ApiError, needsToken, signIns, type Queue, type State, type Stats } from "./api.ts";
import { EventParser } from "./lib/sse.ts";

export interface JobChange {
  id: string;
  type: string;
  queue: string;
  state: State;
  at: number;
}
export interface Sample {
  at: number;
  completed: number;
  dead: number;
  due: number;
  running: number;
}

const POLL_MILLISECONDS = 5_000;
const STALE_AFTER_MILLISECONDS = 20_000;
const SAMPLE_MILLISECONDS = 5_000;
const TRIES_BEFORE_POLLING = 3;
const LONGEST_DELAY = 15_000;
const MOST_CHANGES = 300;
const MOST_SAMPLES = 1_200;
/** One less than the server allows. */
const MOST_TOPICS = 19;

export const stats = signal<Stats | null>(null);
export const queues = signal<Queue[] | null>(null);
/** Recent changes of jobs, newest first. */
export const changes = signal<readonly JobChange[]>([]);
/** Counts since the page was opened, oldest first. */
export const samples = signal<readonly Sample[]>([]);
/** Grows with every update: pages that show what may have changed look again. */
export const updates = signal(0);
export const isPaused = signal(false);
/** The time, once a second while someone looks. */
export const now = signal(Date.now());

/** How many parts of the page follow each topic beside the counts. */
const followed = new Map<string, number>();
const topics = signal("overview");
/** The topic that changed last, and how many changes there were: parts of the page that follow it look again. */
export const changed = signal<{ topic: string; count: number }>({ topic: "", count: 0 });

/** Follows a topic until the returned function is called. */
export function followTopic(topic: string): () => void {
  followed.set(topic, (followed.get(topic) ?? 0) + 1);
  chooseTopics();
  return () => {
    const left = (followed.get(topic) ?? 1) - 1;
    if (left > 0) followed.set(topic, left);
    else followed.delete(topic);
    chooseTopics();
  };
}

let choosing: ReturnType<typeof setTimeout> | undefined;
/** Connects again with the topics of the page, once for all changes of a moment. */
function chooseTopics(): void {
  clearTimeout(choosing);
  choosing = setTimeout(() => {
    topics.value = ["overview", ...[...followed.keys()].sort().slice(0, MOST_TOPICS)].join(",");
  }, 50);
}

const isHidden = signal(document.hidden);
const mode = signal<"connecting" | "live" | "polling" | "stale">("connecting");
const heardAt = signal(Date.now());

export type Liveness = "live" | "paused" | "stale" | "polling" | "connecting";
export const liveness = computed<Liveness>(() => {
  if (isPaused.value) return "paused";
  if (mode.value === "polling") return "polling";
  if (now.value - heardAt.value > STALE_AFTER_MILLISECONDS) return "stale";
  return mode.value;
});
export const staleSeconds = computed(() => Math.max(Math.round((now.value - heardAt.value) / 1_000), 0));

/** Begins to follow the server. */
export function startLive(): void {
  document.addEventListener("visibilitychange", () => {
    isHidden.value = document.hidden;
  });
  setInterval(() => {
    if (isHidden.value) return;
    now.value = Date.now();
    sampleSilence();
  }, 1_000);
  effect(() => {
    if (isPaused.value || isHidden.value || needsToken.value) return;
    void signIns.value;
    const wanted = topics.value;
    const stop = new AbortController();
    heardAt.value = Date.now();
    void follow(stop.signal, wanted);
    return () => stop.abort();
  });
}

let lastEvent: string | null = null;

async function follow(stop: AbortSignal, wanted: string): Promise<void> {
  let failures = 0;
  while (!stop.aborted) {
    try {
      const response = await api.stream(stop, lastEvent, wanted);
      failures = 0;
      mode.value = "live";
      await readAll(response);
    } catch (error) {
      if (stop.aborted || (error instanceof ApiError && error.status === 401)) return;
      failures += 1;
    }
    if (stop.aborted) return;
    if (failures >= TRIES_BEFORE_POLLING) {
      await poll(stop);
    } else {
      mode.value = "connecting";
      await pause(Math.min(500 * 2 ** failures, LONGEST_DELAY), stop);
    }
  }
}

async function readAll(response: Response): Promise<void> {
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const decoder = new TextDecoder();
  const parser = new EventParser();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heardAt.value = Date.now();
    for (const event of parser.push(decoder.decode(value, { stream: true }))) {
      if (event.id !== null) lastEvent = event.id;
      if (event.kind === "snapshot" || event.kind === "update") take(JSON.parse(event.data) as Update);
      if (event.kind === "changed") changed.value = { topic: (JSON.parse(event.data) as { topic: string }).topic, count: changed.peek().count + 1 };
    }
  }
}

interface Update {
  stats: Stats;
  queues: Queue[];
  jobs?: { id: string; type: string; queue: string; state: State }[];
}

function take(update: Update): void {
  const at = Date.now();
  batch(() => {
    stats.value = update.stats;
    queues.value = update.queues;
    if (update.jobs?.length) {
      const fresh = update.jobs.map((job) => ({ ...job, at })).reverse();
      changes.value = [...fresh, ...changes.value].slice(0, MOST_CHANGES);
    }
    addSample(update.stats, at);
    updates.value += 1;
  });
}

function addSample({ states, pruned, due, running }: Stats, at: number): void {
  const sample = {
    at,
    completed: (states.completed ?? 0) + (pruned.completed ?? 0),
    dead: (states.dead ?? 0) + (pruned.dead ?? 0),
    due,
    running,
  };
  samples.value = [...samples.value.slice(-MOST_SAMPLES), sample];
}

/** Counts on while nothing changes: the server is silent then, and a chart shall show that nothing happened. */
function sampleSilence(): void {
  const last = samples.peek().at(-1);
  const known = stats.peek();
  if (known && last && liveness.peek() === "live" && Date.now() - last.at >= SAMPLE_MILLISECONDS) addSample(known, Date.now());
}

async function poll(stop: AbortSignal): Promise<void> {
  for (let round = 0; round < 6 && !stop.aborted; round += 1) {
    try {
      const [counted, listed] = await Promise.all([api.stats(stop), api.queues(stop)]);
      heardAt.value = Date.now();
      mode.value = "polling";
      take({ stats: counted, queues: listed.items });
    } catch (error) {
      if (stop.aborted || (error instanceof ApiError && error.status === 401)) return;
      // The server is away: the stream is tried again next, to be live as soon as it is back.
      mode.value = "stale";
      round = 6;
    }
    await pause(POLL_MILLISECONDS, stop);
  }
}

function pause(milliseconds: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    stop.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
