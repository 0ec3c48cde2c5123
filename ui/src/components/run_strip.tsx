/** The last runs of a schedule as a strip of marks, the newest on the right. */

import type { RecentRun } from "../api.ts";
import { zone } from "../lib/preferences.ts";
import { navigate } from "../lib/router.ts";
import { absolute, duration } from "../lib/time.ts";
import { t } from "../strings.ts";

/** What became of a run, as the colour of its mark. */
export function toneOf(run: RecentRun): "good" | "bad" | "warn" | "busy" | "idle" {
  if (run.state === "completed") return "good";
  if (run.state === "dead") return "bad";
  if (run.state === "cancelled" || run.fate === "missed" || run.fate === "skipped" || run.fate === "overlapped") return "warn";
  return run.state === null ? "idle" : "busy";
}

export function wordsOf(run: RecentRun): string {
  const outcome = run.state === null ? (run.fate === "fired" ? t.schedulesPage.pruned : run.fate.replace("_", " ")) : t.states[run.state];
  const parts = [absolute(run.fire_time, zone.value), outcome];
  if (run.duration !== null) parts.push(t.schedulesPage.ran(duration(run.duration * 1_000)));
  if (run.late !== null && run.late >= 0.5) parts.push(t.schedulesPage.late(duration(run.late * 1_000)));
  return parts.join(", ");
}

export function RunStrip({ runs, most = 30 }: { runs: readonly RecentRun[]; most?: number }) {
  const shown = runs.slice(0, most).reverse();
  if (shown.length === 0) return <span class="faint">{t.never}</span>;
  const count = (tone: string): number => shown.filter((run) => toneOf(run) === tone).length;
  return (
    <span class="run-strip" role="img" aria-label={t.schedulesPage.strip(shown.length, count("good"), count("bad"))}>
      {shown.map((run) => (
        <i
          key={run.fire_time}
          class={`run-${toneOf(run)}`}
          title={wordsOf(run)}
          onClick={() => run.job_id && run.state && navigate(`/jobs/${run.job_id}`)}
        />
      ))}
    </span>
  );
}
