/** Creating and editing a schedule, with a live preview of its fire times. */

import { useEffect, useState } from "preact/hooks";
import { api, ApiError, type Preview, type Schedule, type ScheduleRequest } from "../api.ts";
import { cronWords } from "../lib/cron.ts";
import { prettyJson } from "../lib/json.ts";
import { relative } from "../lib/time.ts";
import { now } from "../live.ts";
import { t } from "../strings.ts";
import { Field } from "./basics.tsx";
import { Dialog } from "./dialog.tsx";
import { PayloadCheck, TypeInput } from "./payload_input.tsx";
import { payloadOf } from "./submit_form.tsx";
import { toast } from "./toasts.tsx";

const words = t.scheduleForm;
const TYPING_MILLISECONDS = 250;
const ZONES: readonly string[] = typeof Intl.supportedValuesOf === "function" ? ["UTC", ...Intl.supportedValuesOf("timeZone")] : ["UTC"];

interface Values {
  name: string;
  cron: string;
  zone: string;
  type: string;
  payload: string;
  queue: string;
  overlap: string;
  catch_up: string;
  jitter: string;
}

function valuesOf(schedule: Schedule | null): Values {
  return {
    name: schedule?.name ?? "",
    cron: schedule?.cron ?? "",
    zone: schedule?.zone ?? "UTC",
    type: schedule?.job.type ?? "",
    payload: schedule ? prettyJson(schedule.job.payload.text) : "",
    queue: schedule?.job.queue ?? "",
    overlap: schedule?.overlap ?? "allow",
    catch_up: schedule?.catch_up ?? "latest",
    jitter: schedule?.jitter ? `${schedule.jitter}s` : "",
  };
}

export function ScheduleForm({ schedule, onClose, onSaved }: { schedule: Schedule | null; onClose: () => void; onSaved: (saved: Schedule) => void }) {
  const [values, setValues] = useState(valuesOf(schedule));
  const [errors, setErrors] = useState<Record<string, string>>({});
  const preview = usePreview(values.cron, values.zone);
  const set = (name: keyof Values) => (event: { currentTarget: { value: string } }) => setValues({ ...values, [name]: event.currentTarget.value });
  const save = async (): Promise<void> => {
    const payload = payloadOf(values.payload);
    if (payload === null) {
      setErrors({ payload: t.submitForm.wrongJson });
      return;
    }
    // What the form does not show stays as it is.
    const job = { ...schedule?.job, type: values.type, payload, queue: values.queue || undefined } as ScheduleRequest["job"];
    const body: ScheduleRequest = {
      name: values.name, cron: values.cron, zone: values.zone, overlap: values.overlap, catch_up: values.catch_up,
      jitter: values.jitter || 0, job,
    }; // prettier-ignore
    try {
      const saved = schedule ? await api.editSchedule(schedule.id, schedule.version, body) : await api.createSchedule(body);
      toast(t.schedulesPage.savedDone(saved.name));
      onSaved(saved);
    } catch (refusal) {
      if (!(refusal instanceof ApiError)) throw refusal;
      const named = Object.fromEntries(refusal.errors.map((one) => [one.field.replace(/^job\./, ""), one.message]));
      setErrors(Object.keys(named).length ? named : { other: `${refusal.detail} ${refusal.fix}` });
    }
  };
  const text = (name: keyof Values, label: string, hint?: string, more: object = {}) => (
    <Field id={`schedule-${name}`} label={label} {...(hint ? { hint } : {})} error={errors[name]}>
      <input id={`schedule-${name}`} value={values[name]} onInput={set(name)} aria-invalid={errors[name] !== undefined} {...more} />
    </Field>
  );
  const choice = (name: "overlap" | "catch_up", label: string, options: Record<string, string>) => (
    <Field id={`schedule-${name}`} label={label} error={errors[name]}>
      <select id={`schedule-${name}`} value={values[name]} onChange={set(name)}>
        {Object.entries(options).map(([value, said]) => (
          <option key={value} value={value}>
            {said}
          </option>
        ))}
      </select>
    </Field>
  );
  const other = Object.entries(errors).filter(([name]) => !(name in values));
  return (
    <Dialog title={schedule ? words.editTitle(schedule.name) : words.newTitle} onClose={onClose} class="large">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        <div class="form-grid">
          {text("name", words.name, undefined, { required: true })}
          <Field id="schedule-type" label={words.type} error={errors["type"]}>
            <TypeInput id="schedule-type" value={values.type} onInput={set("type")} />
          </Field>
          {text("cron", words.rule, words.ruleHint, { required: true, spellcheck: false })}
          {text("zone", words.zone, words.zoneHint, { required: true, list: "zones" })}
          <datalist id="zones">
            {ZONES.map((zone) => (
              <option key={zone} value={zone} />
            ))}
          </datalist>
        </div>
        <PreviewBox cron={values.cron} preview={preview.data} error={preview.error} />
        <div class="form-grid">
          <div class="whole">
            <Field id="schedule-payload" label={words.payload} hint={words.payloadHint} error={errors["payload"]}>
              <textarea id="schedule-payload" rows={3} spellcheck={false} value={values.payload} onInput={set("payload")} />
            </Field>
            <PayloadCheck type={values.type} text={values.payload} />
          </div>
          {text("queue", words.queue, words.queueHint)}
          {text("jitter", words.jitter, words.jitterHint)}
          {choice("overlap", words.overlap, words.overlaps)}
          {choice("catch_up", words.catchUp, words.catchUps)}
        </div>
        {other.map(([name, said]) => (
          <p key={name} class="field-error" role="alert">
            {name === "other" ? said : `${name}: ${said}`}
          </p>
        ))}
        <div class="dialog-actions">
          <button type="button" onClick={onClose}>
            {t.cancel}
          </button>
          <button type="submit" class="primary">
            {schedule ? words.save : words.createNow}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** Asks the server for the fire times of a rule a moment after the last key. */
function usePreview(cron: string, zone: string): { data: Preview | null; error: string | null } {
  const [state, setState] = useState<{ data: Preview | null; error: string | null }>({ data: null, error: null });
  useEffect(() => {
    if (!cron.trim()) {
      setState({ data: null, error: null });
      return;
    }
    const stop = new AbortController();
    const timer = setTimeout(() => {
      api.preview(cron, zone, 10, null, stop.signal).then(
        (data) => setState({ data, error: null }),
        (refusal: unknown) => {
          if (!stop.signal.aborted) setState({ data: null, error: refusal instanceof ApiError ? refusal.detail : String(refusal) });
        },
      );
    }, TYPING_MILLISECONDS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [cron, zone]);
  return state;
}

function PreviewBox({ cron, preview, error }: { cron: string; preview: Preview | null; error: string | null }) {
  return (
    <div class="preview" role="status" aria-label={words.preview}>
      <strong>{words.preview}</strong> <span class="faint">{cronWords(cron) ?? ""}</span>
      {error ? (
        <p class="field-error">{error}</p>
      ) : preview === null ? (
        <p class="faint">{words.previewWaiting}</p>
      ) : (
        <ol>
          {preview.local_times.map((time, index) => (
            <li key={time}>
              {time.slice(0, 19).replace("T", " ")} <span class="faint">{relative(preview.times[index] ?? time, now.value)}</span>
            </li>
          ))}
        </ol>
      )}
      {!error && preview?.clock_changes.map((change) => (
        <p key={change.at} class="notice clock-change">
          {change.text}
        </p>
      ))}
    </div>
  );
}
