/** Changing a job that waits, or running a finished one again with changes: a form that shows what will differ. */

import { useState } from "preact/hooks";
import { api, ApiError, FINISHED, type Job, isSignedIn } from "../api.ts";
import { apiBase, navigate } from "../lib/router.ts";
import { editSnippets } from "../lib/snippets.ts";
import { t } from "../strings.ts";
import { Field } from "./basics.tsx";
import { CopyAs } from "./copy.tsx";
import { Dialog } from "./dialog.tsx";
import { PayloadCheck } from "./payload_input.tsx";
import { payloadOf } from "./submit_form.tsx";
import { toast } from "./toasts.tsx";

interface Values {
  payload: string;
  queue: string;
  priority: string;
  max_attempts: string;
  tags: string;
  delay: string;
}

function valuesOf(job: Job): Values {
  return {
    payload: job.payload?.text ?? "null",
    queue: job.queue,
    priority: String(job.priority),
    max_attempts: String(job.max_attempts),
    tags: (job.tags ?? []).join(", "),
    delay: "",
  };
}

/** Gives what differs, as the API takes it; null where the payload is no JSON. */
function changesOf(before: Values, now: Values): Record<string, unknown> | null {
  const changes: Record<string, unknown> = {};
  if (now.payload.trim() !== before.payload.trim()) {
    const payload = payloadOf(now.payload);
    if (payload === null) return null;
    changes["payload"] = payload;
  }
  if (now.queue !== before.queue) changes["queue"] = now.queue;
  if (now.priority !== before.priority) changes["priority"] = Number(now.priority);
  if (now.max_attempts !== before.max_attempts) changes["max_attempts"] = Number(now.max_attempts);
  if (now.tags !== before.tags) changes["tags"] = now.tags.split(",").map((tag) => tag.trim()).filter((tag) => tag !== "");
  if (now.delay !== "") changes["delay"] = now.delay;
  return changes;
}

export function EditForm({ job, onClose, onDone }: { job: Job; onClose: () => void; onDone: () => void }) {
  const isCopy = FINISHED.includes(job.status);
  const before = valuesOf(job);
  const [values, setValues] = useState(before);
  const [error, setError] = useState<{ field: string; text: string } | null>(null);
  const set = (name: keyof Values) => (event: { currentTarget: { value: string } }) => setValues({ ...values, [name]: event.currentTarget.value });
  const errorOf = (name: string): string | undefined => (error?.field === name ? error.text : undefined);
  const changes = changesOf(before, values);
  const differing = Object.keys(changes ?? {}) as (keyof Values)[];
  const submit = async (): Promise<void> => {
    if (changes === null) {
      setError({ field: "payload", text: t.submitForm.wrongJson });
      return;
    }
    try {
      if (isCopy) {
        const made = await api.retryWith(job.id, changes);
        toast(t.editForm.made(made.id));
        onClose();
        navigate(`/jobs/${made.id}`);
      } else {
        await api.editJob(job.id, changes);
        toast(t.editForm.changed);
        onClose();
        onDone();
      }
    } catch (refusal) {
      if (!(refusal instanceof ApiError)) throw refusal;
      setError({ field: refusal.errors[0]?.field ?? "", text: refusal.errors[0]?.message ?? refusal.detail });
    }
  };
  const fields = ["payload", "queue", "priority", "max_attempts", "tags", "delay"];
  return (
    <Dialog title={isCopy ? t.editForm.retryTitle : t.editForm.editTitle} onClose={onClose} class="wide">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <p class="faint">{isCopy ? t.editForm.retryBody : t.editForm.editBody}</p>
        <Field id="edit-payload" label={t.submitForm.payload} hint={t.submitForm.payloadHint} error={errorOf("payload")}>
          <textarea id="edit-payload" rows={8} spellcheck={false} value={values.payload} onInput={set("payload")} />
        </Field>
        <PayloadCheck type={job.type} text={values.payload} />
        <div class="form-grid">
          <Field id="edit-queue" label={t.submitForm.queue} error={errorOf("queue")}>
            <input id="edit-queue" required value={values.queue} onInput={set("queue")} />
          </Field>
          <Field id="edit-priority" label={t.submitForm.priority} hint={t.submitForm.priorityHint} error={errorOf("priority")}>
            <input id="edit-priority" type="number" min={1} max={10} required value={values.priority} onInput={set("priority")} />
          </Field>
          <Field id="edit-attempts" label={t.editForm.attempts} error={errorOf("max_attempts")}>
            <input id="edit-attempts" type="number" min={1} required value={values.max_attempts} onInput={set("max_attempts")} />
          </Field>
          <Field id="edit-tags" label={t.editForm.tags} hint={t.editForm.tagsHint} error={errorOf("tags")}>
            <input id="edit-tags" value={values.tags} onInput={set("tags")} />
          </Field>
          <Field id="edit-delay" label={t.submitForm.delay} hint={isCopy ? t.submitForm.delayHint : t.editForm.delayHint} error={errorOf("delay")}>
            <input id="edit-delay" value={values.delay} onInput={set("delay")} />
          </Field>
        </div>
        <div class="diff" role="status">
          {differing.length === 0 ? (
            <p class="faint">{changes === null ? t.submitForm.wrongJson : t.editForm.same}</p>
          ) : (
            <dl>
              {differing.map((name) => (
                <div key={name}>
                  <dt>{name}</dt>
                  <dd>
                    <del>{before[name] || t.none}</del> <ins>{values[name] || t.none}</ins>
                  </dd>
                </div>
              ))}
            </dl>
          )}
        </div>
        {error && !fields.includes(error.field) && (
          <p class="field-error" role="alert">
            {error.text}
          </p>
        )}
        <div class="dialog-actions">
          <CopyAs snippets={() => editSnippets(apiBase.href.replace(/\/$/, ""), job.id, isCopy, changes ?? {}, isSignedIn.value)} />
          <button type="button" onClick={onClose}>
            {t.cancel}
          </button>
          <button type="submit" class="primary" disabled={differing.length === 0}>
            {isCopy ? t.editForm.retry : t.scheduleForm.save}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
