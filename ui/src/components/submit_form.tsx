/** Submitting a job by hand. */

import { useState } from "preact/hooks";
import { api, ApiError } from "../api.ts";
import { RawJson } from "../lib/json.ts";
import { setParameters } from "../lib/router.ts";
import { t } from "../strings.ts";
import { Field } from "./basics.tsx";
import { Dialog } from "./dialog.tsx";
import { PayloadCheck, TypeInput } from "./payload_input.tsx";
import { toast } from "./toasts.tsx";

export function SubmitForm({ onClose }: { onClose: () => void }) {
  const [values, setValues] = useState({ type: "", payload: "", queue: "", delay: "", priority: "" });
  const [error, setError] = useState<{ field: string; text: string } | null>(null);
  const set = (name: keyof typeof values) => (event: { currentTarget: { value: string } }) => setValues({ ...values, [name]: event.currentTarget.value });
  const errorOf = (name: string): string | undefined => (error?.field === name ? error.text : undefined);
  const submit = async (): Promise<void> => {
    const payload = payloadOf(values.payload);
    if (payload === null) {
      setError({ field: "payload", text: t.submitForm.wrongJson });
      return;
    }
    try {
      const job = await api.submit({
        type: values.type,
        payload,
        queue: values.queue || undefined,
        delay: values.delay || undefined,
        priority: values.priority ? Number(values.priority) : undefined,
      });
      toast(t.submitForm.done(job.id));
      onClose();
      setParameters({ job: job.id });
    } catch (refusal) {
      if (!(refusal instanceof ApiError)) throw refusal;
      setError({ field: refusal.errors[0]?.field ?? "", text: refusal.errors[0]?.message ?? refusal.detail });
    }
  };
  return (
    <Dialog title={t.submitForm.title} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <Field id="submit-type" label={t.submitForm.type} hint={t.submitForm.typeHint} error={errorOf("type")}>
          <TypeInput id="submit-type" value={values.type} onInput={set("type")} />
        </Field>
        <Field id="submit-payload" label={t.submitForm.payload} hint={t.submitForm.payloadHint} error={errorOf("payload")}>
          <textarea id="submit-payload" rows={5} spellcheck={false} value={values.payload} onInput={set("payload")} />
        </Field>
        <PayloadCheck type={values.type} text={values.payload} />
        <div class="form-grid">
          <Field id="submit-queue" label={t.submitForm.queue} hint={t.submitForm.queueHint} error={errorOf("queue")}>
            <input id="submit-queue" value={values.queue} onInput={set("queue")} />
          </Field>
          <Field id="submit-delay" label={t.submitForm.delay} hint={t.submitForm.delayHint} error={errorOf("delay")}>
            <input id="submit-delay" value={values.delay} onInput={set("delay")} />
          </Field>
          <Field id="submit-priority" label={t.submitForm.priority} hint={t.submitForm.priorityHint} error={errorOf("priority")}>
            <input id="submit-priority" type="number" min={1} max={10} value={values.priority} onInput={set("priority")} />
          </Field>
        </div>
        {error && !["type", "payload", "queue", "delay", "priority"].includes(error.field) && (
          <p class="field-error" role="alert">
            {error.text}
          </p>
        )}
        <div class="dialog-actions">
          <button type="button" onClick={onClose}>
            {t.cancel}
          </button>
          <button type="submit" class="primary">
            {t.submitForm.submit}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** Reads a payload without changing it; null where it is no JSON. Nothing typed is an empty object. */
export function payloadOf(text: string): RawJson | null {
  const trimmed = text.trim() || "{}";
  try {
    JSON.parse(trimmed);
    return new RawJson(trimmed);
  } catch {
    return null;
  }
}
