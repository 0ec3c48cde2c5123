/** Circuit breakers: their states, what they have counted, and opening and closing by hand. */

import { api, type Breaker } from "../api.ts";
import { useQuery } from "../lib/query.ts";
import { t } from "../strings.ts";
import { Ago, Lamp, Table } from "./basics.tsx";
import { ask } from "./dialog.tsx";
import { Permitted } from "./permitted.tsx";
import { attempt } from "./toasts.tsx";

/** The year that the server gives for a breaker that is not tried by itself. */
const NEVER = "9999-";
const TONES = { closed: "good", half_open: "warn", open: "bad" } as const;

/** A card with all circuit breakers; nothing while there are none. */
export function Breakers() {
  const breakers = useQuery("breakers", api.breakers, { every: 5 });
  const columns = t.breakers.columns;
  if (!breakers.data || breakers.data.items.length === 0) return null;
  return (
    <div class="card">
      <h2>{t.breakers.title}</h2>
      <Table
        caption={t.breakers.caption}
        head={
          <>
            <th>{columns.name}</th>
            <th>{columns.state}</th>
            <th class="right">{columns.failed}</th>
            <th class="fill">{columns.tasks}</th>
            <th class="right">{columns.opened}</th>
            <th>{columns.next}</th>
            <th>
              <span class="sr-only">{t.actions}</span>
            </th>
          </>
        }
      >
        {breakers.data.items.map((one) => (
          <Row key={one.name} breaker={one} onChange={breakers.reload} />
        ))}
      </Table>
    </div>
  );
}

function Row({ breaker, onChange }: { breaker: Breaker; onChange: () => void }) {
  const isClosed = breaker.state === "closed";
  const act = (done: Promise<boolean>): void => void done.then((isDone) => isDone && onChange());
  return (
    <tr>
      <td>
        <span class="strong">{breaker.name}</span>
        <div class="hint">{t.breakers.rule(breaker)}</div>
      </td>
      <td>
        <Lamp tone={TONES[breaker.state]}>{t.breakers.states[breaker.state]}</Lamp>
        {breaker.is_forced && <div class="hint">{t.breakers.forced(breaker.set_by)}</div>}
        {breaker.reason && <div class="hint clip">{breaker.reason}</div>}
      </td>
      <td class="right">{t.breakers.share(breaker.failed, breaker.calls)}</td>
      <td class="fill">
        {breaker.tasks.map((name) => (
          <span key={name} class="tag">
            {name}
          </span>
        ))}
      </td>
      <td class="right">{t.count(breaker.opened)}</td>
      <td class="number">{breaker.open_until?.startsWith(NEVER) ? t.breakers.untilClosed : <Ago at={isClosed ? null : breaker.open_until} />}</td>
      <td class="actions">
        {breaker.state !== "open" && (
          <Permitted needs="queues.edit" class="small" onClick={() => act(open(breaker))}>
            {t.breakers.open}
          </Permitted>
        )}{" "}
        {(!isClosed || !breaker.is_forced) && (
          <Permitted needs="queues.edit" class="small" onClick={() => act(close(breaker))}>
            {t.breakers.close}
          </Permitted>
        )}{" "}
        {(breaker.is_forced || !isClosed) && (
          <Permitted needs="queues.edit" class="small" onClick={() => act(attempt(() => api.resetBreaker(breaker.name), () => t.breakers.resetDone(breaker.name)))}>
            {t.breakers.reset}
          </Permitted>
        )}
      </td>
    </tr>
  );
}

async function open(breaker: Breaker): Promise<boolean> {
  const answer = await ask({
    title: t.breakers.openTitle(breaker.name),
    body: t.breakers.openBody,
    action: t.breakers.open,
    field: { label: t.queuesPage.reason },
    second: { label: t.breakers.openFor, hint: t.breakers.openForHint },
  });
  if (answer === null) return false;
  return attempt(() => api.openBreaker(breaker.name, answer.text, answer.second || null), () => t.breakers.openedDone(breaker.name));
}

async function close(breaker: Breaker): Promise<boolean> {
  const answer = await ask({ title: t.breakers.closeTitle(breaker.name), body: t.breakers.closeBody, action: t.breakers.close, field: { label: t.queuesPage.reason } });
  if (answer === null) return false;
  return attempt(() => api.closeBreaker(breaker.name, answer.text), () => t.breakers.closedDone(breaker.name));
}
