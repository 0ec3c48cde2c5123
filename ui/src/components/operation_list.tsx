/** Operations and how far they are: those that are going on, above the lists that they change; or the latest of all. */

import { api, type Operation } from "../api.ts";
import { useQuery } from "../lib/query.ts";
import { duration } from "../lib/time.ts";
import { now } from "../live.ts";
import { t } from "../strings.ts";
import { Ago, Card, Lamp, Link } from "./basics.tsx";
import { Permitted } from "./permitted.tsx";
import { attempt } from "./toasts.tsx";

const words = t.operations;
/** How long an operation that has ended is shown above the lists. */
const SHOWN_MILLISECONDS = 60_000;
const TONES = { waiting: "idle", running: "busy", completed: "good", cancelled: "idle", stopped: "bad" } as const;

export function OperationList({ isWhole = false }: { isWhole?: boolean }) {
  const found = useQuery("operations", api.operations, { topic: "operations", every: 10 });
  const items = (found.data?.items ?? []).filter((one) => isWhole || isShown(one));
  if (items.length === 0) return null;
  return (
    <Card title={words.list} isFlush>
      <ul class="operation-list">
        {items.map((one) => (
          <Row key={one.id} operation={one} onChange={found.reload} />
        ))}
      </ul>
    </Card>
  );
}

function isShown(operation: Operation): boolean {
  return operation.ended_at === null || now.value - new Date(operation.ended_at).getTime() < SHOWN_MILLISECONDS;
}

function Row({ operation, onChange }: { operation: Operation; onChange: () => void }) {
  const { id, state, done, refused, matched, eta } = operation;
  const share = state === "completed" ? 1 : matched > 0 ? Math.min((done + refused) / matched, 1) : 0;
  const left = eta && state === "running" ? new Date(eta).getTime() - now.value : 0;
  return (
    <li>
      <div class="operation-what">
        <strong>{words.verbs[operation.action]}</strong>{" "}
        {operation.q ? (
          <Link to={`/jobs?q=${encodeURIComponent(operation.q)}`} class="mono">
            {operation.q}
          </Link>
        ) : (
          words.chosen(operation.id_count)
        )}
        <div class="hint">
          {words.by} {operation.by}, <Ago at={operation.created_at} />
        </div>
      </div>
      <div class="operation-progress">
        <Lamp tone={TONES[state]}>{words.states[state]}</Lamp> <span class="hint">{operation.reason}</span>
        <div class="progress" role="progressbar" aria-label={words.verbs[operation.action]} aria-valuenow={Math.round(share * 100)} aria-valuemin={0} aria-valuemax={100}>
          <span style={{ width: `${share * 100}%` }} />
        </div>
        <div class="hint">
          {[
            words.progress(done, matched, operation.is_exact),
            refused > 0 && words.refused(refused),
            operation.rate !== null && words.rate(operation.rate),
            operation.canary > 0 && words.canaries(operation.canary),
            left > 0 && words.left(duration(left)),
          ].filter(Boolean).join(", ")}
        </div>
      </div>
      {id !== null && operation.ended_at === null && (
        <Permitted needs="jobs.operate" class="small danger" onClick={() => void attempt(() => api.cancelOperation(id), (stopped) => words.undone(stopped.done)).then(onChange)}>
          {words.stop}
        </Permitted>
      )}
    </li>
  );
}
