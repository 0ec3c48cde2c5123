/** Operations: an action on all jobs of a search, after a question that names their count, with ten seconds to undo it. */

import { api, type OperationAction, type OperationRequest } from "../api.ts";
import { t } from "../strings.ts";
import { ask } from "./dialog.tsx";
import { attempt, toast, undoable } from "./toasts.tsx";

const UNDO_SECONDS = 10;

/** Counts the jobs, asks, and creates the operation; gives whether it was created. */
export async function operate(wanted: OperationRequest): Promise<boolean> {
  try {
    const counted = await api.operate({ ...wanted, dry_run: true });
    if (counted.matched === 0 && counted.is_exact) {
      toast(t.operations.none, "bad");
      return false;
    }
    const count = `${t.count(counted.matched)}${counted.is_exact ? "" : "+"}`;
    const chosen = await choose(wanted.action, count);
    if (chosen === null) return false;
    return await begin({ ...wanted, arguments: { ...wanted.arguments, ...chosen } }, t.operations.begins(t.operations.verbs[wanted.action], count, UNDO_SECONDS));
  } catch (error) {
    toast(error instanceof Error ? error.message : String(error), "bad");
    return false;
  }
}

/** Creates an operation that begins in ten seconds, and offers to take it back until then. */
export async function begin(wanted: OperationRequest, words: string): Promise<boolean> {
  try {
    const made = await api.operate({ ...wanted, start_after: UNDO_SECONDS });
    undoable(words, UNDO_SECONDS * 1_000, () => void undo(made.id));
    return true;
  } catch (error) {
    toast(error instanceof Error ? error.message : String(error), "bad");
    return false;
  }
}

/** Asks for confirmation, and for rate and canary where jobs will run. */
async function choose(action: OperationAction, count: string): Promise<{ rate?: number; canary?: number } | null> {
  const runs = action === "retry" || action === "run_now";
  const answer = await ask({
    title: t.operations.title(t.operations.verbs[action], count),
    body: t.operations.bodies[action],
    action: t.operations.verbs[action],
    isDangerous: action === "cancel" || action === "delete",
    ...(runs
      ? {
          field: { label: t.deadPage.rate, hint: t.deadPage.rateHint, type: "number" as const },
          second: { label: t.operations.canary, hint: t.operations.canaryHint, type: "number" as const },
        }
      : {}),
  });
  if (answer === null) return null;
  const rate = Number(answer.text);
  const canary = Number(answer.second);
  return { ...(rate > 0 ? { rate } : {}), ...(canary > 0 ? { canary } : {}) };
}

async function undo(id: string | null): Promise<void> {
  if (id !== null) await attempt(() => api.cancelOperation(id), (operation) => t.operations.undone(operation.done));
}
