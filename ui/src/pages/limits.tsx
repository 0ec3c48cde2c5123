/** Limits: how many jobs run at once and how often they start, who holds them, what waits, closing and opening. */

import { useState } from "preact/hooks";
import { api, ApiError, type Limit } from "../api.ts";
import { Breakers } from "../components/breakers.tsx";
import { Ago, Empty, Field, Lamp, Link, Loaded, PageHead, Table } from "../components/basics.tsx";
import { ask, Dialog } from "../components/dialog.tsx";
import { Icon } from "../components/icons.tsx";
import { Permitted } from "../components/permitted.tsx";
import { attempt, toast } from "../components/toasts.tsx";
import { zone } from "../lib/preferences.ts";
import { useQuery } from "../lib/query.ts";
import { fromInput } from "../lib/time.ts";
import { t } from "../strings.ts";

/** Of how many limits the use is read; each is a request. */
const MOST_COUNTED = 30;
/** The year that the server gives for a limit that does not open by itself. */
const NEVER = "9999-";

export default function LimitsPage() {
  const limits = useQuery("limits", api.limits, { every: 10 });
  const [edited, setEdited] = useState<Limit | "new" | null>(null);
  const columns = t.limitsPage.columns;
  return (
    <>
      <PageHead title={t.limitsPage.title}>
        <Permitted needs="queues.edit" class="primary" onClick={() => setEdited("new")}>
          <Icon name="plus" /> {t.limitsPage.create}
        </Permitted>
      </PageHead>
      <div class="card">
        <Loaded query={limits}>
          {(data) =>
            data.items.length === 0 ? (
              <Empty title={t.limitsPage.empty} body={t.limitsPage.emptyBody} command={t.limitsPage.emptyCommand} />
            ) : (
              <Table
                caption={t.limitsPage.caption}
                isCards
                head={
                  <>
                    <th>{columns.name}</th>
                    <th>{columns.state}</th>
                    <th>{columns.allows}</th>
                    <th class="right">{columns.running}</th>
                    <th class="fill">{columns.holders}</th>
                    <th class="right">{columns.waiting}</th>
                    <th>{columns.opens}</th>
                    <th>
                      <span class="sr-only">{t.actions}</span>
                    </th>
                  </>
                }
              >
                {data.items.map((limit, index) => (
                  <Row key={limit.name} limit={limit} isCounted={index < MOST_COUNTED} onChange={limits.reload} onEdit={() => setEdited(limit)} />
                ))}
              </Table>
            )
          }
        </Loaded>
      </div>
      <Breakers />
      {edited && <LimitForm limit={edited === "new" ? null : edited} onClose={() => setEdited(null)} onDone={limits.reload} />}
    </>
  );
}

function Row({ limit, isCounted, onChange, onEdit }: { limit: Limit; isCounted: boolean; onChange: () => void; onEdit: () => void }) {
  const use = useQuery(`limit ${limit.name} ${limit.closed_until ?? ""}`, (signal) => (isCounted ? api.limit(limit.name, signal) : Promise.resolve(null)), { isLive: isCounted, every: 5 });
  const isClosed = limit.closed_until !== null && new Date(limit.closed_until).getTime() > Date.now();
  const found = use.data;
  return (
    <tr>
      <td>
        <span class="strong">{limit.name}</span>
        {limit.app && <div class="hint">{t.limitsPage.fromApp(limit.app)}</div>}
        {limit.breaker && <div class="hint">{t.limitsPage.waitsFor(limit.breaker)}</div>}
      </td>
      <td>
        {isClosed ? (
          <>
            <Lamp tone="warn">{t.limitsPage.closed}</Lamp>
            {limit.reason && <div class="hint clip">{limit.reason}</div>}
          </>
        ) : (
          <Lamp tone="good">{t.limitsPage.open}</Lamp>
        )}
      </td>
      <td class="number">{t.limitsPage.allows(limit)}</td>
      <td class="right">{found ? t.count(found.running) : t.none}</td>
      <td class="fill">
        {found?.holders.slice(0, 5).map((id) => (
          <Link key={id} to={`/jobs/${id}`} class="mono tag">
            {id}
          </Link>
        ))}
      </td>
      <td class="right">{found ? `${t.count(found.waiting)}${found.waiting_is_more ? "+" : ""}` : t.none}</td>
      <td class="number">
        {found?.opens_at?.startsWith(NEVER) ? t.limitsPage.untilOpened : <Ago at={found?.opens_at ?? null} />}
      </td>
      <td class="actions">
        <Permitted needs="queues.edit" class="small" onClick={() => void (isClosed ? open(limit) : close(limit)).then((isDone) => isDone && onChange())}>
          {isClosed ? t.limitsPage.openAction : t.limitsPage.close}
        </Permitted>{" "}
        <Permitted needs="queues.edit" class="small" onClick={onEdit}>
          {t.editForm.edit}
        </Permitted>{" "}
        <Permitted needs="queues.edit" class="small danger" onClick={() => void remove(limit).then((isDone) => isDone && onChange())}>
          {t.limitsPage.remove}
        </Permitted>
      </td>
    </tr>
  );
}

async function close(limit: Limit): Promise<boolean> {
  const answer = await ask({
    title: t.limitsPage.closeTitle(limit.name),
    body: t.limitsPage.closeBody,
    action: t.limitsPage.close,
    field: { label: t.queuesPage.reason },
    second: { label: t.limitsPage.until, hint: t.limitsPage.untilHint, type: "datetime-local" },
  });
  if (answer === null) return false;
  const until = answer.second ? fromInput(answer.second, zone.peek()).toISOString() : null;
  return attempt(() => api.closeLimit(limit.name, answer.text, until), () => t.limitsPage.closedDone(limit.name));
}

function open(limit: Limit): Promise<boolean> {
  return attempt(() => api.openLimit(limit.name), () => t.limitsPage.openedDone(limit.name));
}

async function remove(limit: Limit): Promise<boolean> {
  if ((await ask({ title: t.limitsPage.removeTitle(limit.name), body: t.limitsPage.removeBody, action: t.limitsPage.remove, isDangerous: true })) === null) return false;
  return attempt(() => api.deleteLimit(limit.name), () => t.limitsPage.removedDone(limit.name));
}

function LimitForm({ limit, onClose, onDone }: { limit: Limit | null; onClose: () => void; onDone: () => void }) {
  const text = (value: number | string | null | undefined): string => (value === null || value === undefined ? "" : String(value));
  const [values, setValues] = useState({ name: limit?.name ?? "", max_running: text(limit?.max_running), rate_limit: text(limit?.rate_limit) });
  const [error, setError] = useState<{ field: string; text: string } | null>(null);
  const set = (name: keyof typeof values) => (event: { currentTarget: { value: string } }) => setValues({ ...values, [name]: event.currentTarget.value });
  const errorOf = (name: string): string | undefined => (error?.field === name ? error.text : undefined);
  const save = async (): Promise<void> => {
    try {
      await api.putLimit(values.name, {
        // What this form does not show stays as it is.
        per_key_max_running: limit?.per_key_max_running ?? undefined,
        per_key_rate_limit: limit?.per_key_rate_limit ?? undefined,
        weight: limit?.weight ?? undefined,
        order: limit?.order ?? undefined,
        on_full: limit?.on_full ?? undefined,
        max_running: values.max_running ? Number(values.max_running) : undefined,
        rate_limit: values.rate_limit || undefined,
      });
      toast(t.limitsPage.savedDone(values.name));
      onClose();
      onDone();
    } catch (refusal) {
      if (!(refusal instanceof ApiError)) throw refusal;
      setError({ field: refusal.errors[0]?.field ?? "", text: refusal.errors[0]?.message ?? refusal.detail });
    }
  };
  return (
    <Dialog title={limit ? t.limitsPage.editTitle(limit.name) : t.limitsPage.create} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        {limit === null && (
          <Field id="limit-name" label={t.limitsPage.name} hint={t.limitsPage.nameHint} error={errorOf("name")}>
            <input id="limit-name" required value={values.name} onInput={set("name")} />
          </Field>
        )}
        <div class="form-grid">
          <Field id="limit-running" label={t.limitsPage.maxRunning} hint={t.limitsPage.maxRunningHint} error={errorOf("max_running")}>
            <input id="limit-running" type="number" min={0} value={values.max_running} onInput={set("max_running")} />
          </Field>
          <Field id="limit-rate" label={t.limitsPage.rate} hint={t.limitsPage.rateHint} error={errorOf("rate_limit")}>
            <input id="limit-rate" value={values.rate_limit} onInput={set("rate_limit")} />
          </Field>
        </div>
        {error && !["name", "max_running", "rate_limit"].includes(error.field) && (
          <p class="field-error" role="alert">
            {error.text}
          </p>
        )}
        <div class="dialog-actions">
          <button type="button" onClick={onClose}>
            {t.cancel}
          </button>
          <button type="submit" class="primary">
            {t.scheduleForm.save}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
