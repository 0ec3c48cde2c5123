/** Workers as they last described themselves. */

import { useState } from "preact/hooks";
import { api, type Worker, type WorkerOrder } from "../api.ts";
import { Ago, Empty, Lamp, Link, Loaded, Meter, PageHead, Table } from "../components/basics.tsx";
import { ask, Dialog } from "../components/dialog.tsx";
import { Permitted } from "../components/permitted.tsx";
import { attempt } from "../components/toasts.tsx";
import { useQuery } from "../lib/query.ts";
import { t } from "../strings.ts";

const words = t.workersPage;

export default function WorkersPage() {
  const workers = useQuery("workers", api.workers, { topic: "workers", every: 5 });
  const system = useQuery("system", api.system, { every: 60 });
  const columns = words.columns;
  return (
    <>
      <PageHead title={words.title} />
      <div class="card">
        <Loaded query={workers}>
          {(data) =>
            data.items.length === 0 ? (
              <Empty title={words.empty} body={words.emptyBody} command={words.emptyCommand} />
            ) : (
              <Table
                caption={words.caption}
                isCards
                head={
                  <>
                    <th>{columns.name}</th>
                    <th>{columns.state}</th>
                    <th>{columns.busy}</th>
                    <th>{columns.jobs}</th>
                    <th>{columns.queues}</th>
                    <th>{columns.types}</th>
                    <th>{columns.host}</th>
                    <th>{columns.seen}</th>
                    <th>
                      <span class="sr-only">{t.actions}</span>
                    </th>
                  </>
                }
              >
                {data.items.map((worker) => (
                  <Row key={worker.boot_id} worker={worker} version={system.data?.version ?? worker.version} onChange={workers.reload} />
                ))}
              </Table>
            )
          }
        </Loaded>
      </div>
    </>
  );
}

const CLOCK_SECONDS = 2;

function Row({ worker, version, onChange }: { worker: Worker; version: string; onChange: () => void }) {
  const columns = words.columns;
  const isOff = worker.clock_offset !== null && Math.abs(worker.clock_offset) > CLOCK_SECONDS;
  const ordered = worker.orders?.stop && !worker.is_draining ? words.ordered.stop : worker.orders?.quiet && !worker.is_quiet ? words.ordered.quiet : "";
  return (
    <tr>
      <td class="number">
        <Link to={`/jobs?worker_id=${encodeURIComponent(worker.worker_id)}`} class="strong">
          {worker.worker_id}
        </Link>
      </td>
      <td>
        <Lamp tone={!worker.is_alive ? "bad" : worker.is_draining || worker.is_quiet ? "warn" : "good"}>
          {!worker.is_alive ? words.stale : worker.is_draining ? words.draining : worker.is_quiet ? words.isQuiet : words.alive}
        </Lamp>
        {worker.is_alive && ordered && <div class="hint">{ordered}</div>}
        {isOff && <div class="bad">{words.clock(worker.clock_offset ?? 0)}</div>}
        {worker.threads_left_behind > 0 && <div class="bad">{words.leftBehind(worker.threads_left_behind)}</div>}
      </td>
      <td class="number">
        <Meter value={worker.busy} max={worker.slots} label={words.slots(worker.busy, worker.slots)} />
        {worker.busy}/{worker.slots}
        <div class="hint" title={columns.load}>
          {words.load(worker.cpu, worker.rss)}
        </div>
      </td>
      <td>
        {worker.jobs.slice(0, 3).map((id) => (
          <div key={id}>
            <Link to={`/jobs/${id}`}>
              <code>{id}</code>
            </Link>
          </div>
        ))}
        {worker.jobs.length > 3 && <span class="faint">+{worker.jobs.length - 3}</span>}
      </td>
      <td class="tags">
        {worker.queues.map((queue) => (
          <span key={queue} class="tag">
            {queue}
          </span>
        ))}
      </td>
      <td>
        {worker.types === null ? (
          words.allTypes
        ) : (
          <details>
            <summary>{words.types(worker.types.length)}</summary>
            {worker.types.map((type) => (
              <span key={type} class="tag">
                {type}
              </span>
            ))}
          </details>
        )}
      </td>
      <td class="number">
        {worker.host} <span class="faint">{worker.pid}</span>
        <div class={worker.version === version ? "hint" : "bad"} title={worker.version === version ? undefined : words.differs(version)}>
          {worker.version}
        </div>
      </td>
      <td class="number">
        <Ago at={worker.seen_at} />
        <div class="hint">
          {columns.started.toLowerCase()} <Ago at={worker.started_at} />
        </div>
      </td>
      <td class="actions">
        <Actions worker={worker} onChange={onChange} />
      </td>
    </tr>
  );
}

function Actions({ worker, onChange }: { worker: Worker; onChange: () => void }) {
  const [isShowing, setShowing] = useState(false);
  const button = (label: string, act: () => Promise<boolean>, isDangerous = false) => (
    <Permitted needs="workers.edit" class={`small ${isDangerous ? "danger" : ""}`} onClick={() => void act().then((isDone) => isDone && onChange())}>
      {label}
    </Permitted>
  );
  if (!worker.is_alive) return button(words.forget, () => attempt(() => api.forgetWorker(worker.boot_id), () => words.forgotten(worker.worker_id)));
  const isQuiet = worker.orders?.quiet ?? worker.is_quiet;
  return (
    <>
      {isQuiet ? button(words.verbs.resume, () => tell(worker, "resume")) : button(words.verbs.quiet, () => confirmed(worker, "quiet"))}
      {button(words.verbs.stop, () => confirmed(worker, "stop"), true)}
      {button(words.verbs.stacks, async () => {
        const isTold = await tell(worker, "stacks");
        setShowing(isTold);
        return isTold;
      })}
      {isShowing && <Stacks worker={worker} onClose={() => setShowing(false)} />}
    </>
  );
}

function tell(worker: Worker, verb: WorkerOrder): Promise<boolean> {
  return attempt(() => api.orderWorker(worker.boot_id, verb), () => words.told(worker.worker_id));
}

async function confirmed(worker: Worker, verb: "quiet" | "stop"): Promise<boolean> {
  const isStop = verb === "stop";
  const answer = await ask({
    title: isStop ? words.stopTitle(worker.worker_id) : words.quietTitle(worker.worker_id),
    body: isStop ? words.stopBody : words.quietBody,
    action: words.verbs[verb],
    isDangerous: isStop,
  });
  return answer !== null && tell(worker, verb);
}

/** The answer to the request for stacks that was just sent: newer than what was known before. */
function Stacks({ worker, onClose }: { worker: Worker; onClose: () => void }) {
  const [asked] = useState(() => Date.now());
  const detail = useQuery(`stacks ${worker.boot_id}`, (signal) => api.worker(worker.boot_id, signal), { every: 1 });
  const at = detail.data?.stacks_at ?? null;
  // The clock of the worker may be off: an answer of some seconds before the request is taken for one too.
  const isThere = at !== null && new Date(at).getTime() >= asked - 5_000;
  return (
    <Dialog title={words.stacksTitle(worker.worker_id)} onClose={onClose} class="wide">
      {isThere ? <pre class="trace" tabIndex={0}>{detail.data?.stacks}</pre> : <p class="faint">{words.stacksWait}</p>}
    </Dialog>
  );
}
