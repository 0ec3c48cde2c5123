/** Retry, cancel and run now: of one job or of many, after a question that names their count. */

import { api, FINISHED, type Job, type JobAction } from "../api.ts";
import { t } from "../strings.ts";
import { ask } from "./dialog.tsx";
import { begin } from "./operations.tsx";
import { attempt } from "./toasts.tsx";

/** Says which actions make sense for a job. */
export function actionsOf(job: Job): JobAction[] {
  if (job.status === "dead" || job.status === "cancelled") return ["retry"];
  if (FINISHED.includes(job.status)) return [];
  if (job.status === "scheduled" || job.status === "retrying") return ["run-now", "cancel"];
  return ["cancel"];
}

export const LABELS: Record<JobAction, string> = {
  retry: t.actions_.retry,
  cancel: t.actions_.cancelJob,
  "run-now": t.actions_.runNow,
};
/** What the server asks for. */
export const NEEDS: Record<JobAction, string> = { retry: "jobs.retry", cancel: "jobs.cancel", "run-now": "jobs.retry" };
export const ICONS: Record<JobAction, string> = { retry: "retry", cancel: "stop", "run-now": "play" };

/** Asks, acts and tells; gives whether anything was done. */
export async function act(ids: string[], action: JobAction): Promise<boolean> {
  const questions: Record<JobAction, [string, string]> = {
    retry: [t.actions_.retryTitle(ids.length), t.actions_.retryBody],
    cancel: [t.actions_.cancelTitle(ids.length), t.actions_.cancelBody],
    "run-now": [t.actions_.runTitle(ids.length), t.actions_.runBody],
  };
  const [title, body] = questions[action];
  if (action === "cancel" || ids.length > 1) {
    if ((await ask({ title, body, action: LABELS[action], isDangerous: action === "cancel" })) === null) return false;
  }
  const [first] = ids;
  if (ids.length === 1 && first !== undefined) {
    return attempt(
      () => api.actOnJob(first, action),
      (job) => (action === "cancel" && job.status === "running" ? t.actions_.askedToStop : t.actions_.done(t.actions_.verbs[action], 1, 0)),
    );
  }
  // Many jobs are cancelled by an operation, which can be taken back until it begins.
  if (action === "cancel") return begin({ action: "cancel", ids }, t.operations.begins(t.operations.verbs.cancel, t.count(ids.length), 10));
  return attempt(
    () => api.actOnJobs(ids, action),
    (reply) => {
      const refused = reply.items.filter((one) => one.status >= 400).length;
      return t.actions_.done(t.actions_.verbs[action], reply.items.length - refused, refused);
    },
  );
}
