/** The errors of a job by attempt: message, traceback, and what differs from the attempt before. */

import { useState } from "preact/hooks";
import type { Attempt, ErrorForm, Job } from "../api.ts";
import { diffLines, ofLibraries } from "../lib/diff.ts";
import { useKeys } from "../lib/keyboard.ts";
import { t } from "../strings.ts";
import { Card } from "./basics.tsx";

interface Failed {
  number: number;
  error: ErrorForm;
}

function failedOf(job: Job, attempts: readonly Attempt[]): Failed[] {
  const found = attempts.flatMap((one, index) => (one.error ? [{ number: index + 1, error: one.error }] : []));
  return found.length === 0 && job.error ? [{ number: attempts.length || 1, error: job.error }] : found;
}

function textOf(error: ErrorForm): string {
  return [`${error.kind ?? ""}: ${error.message ?? ""}`, error.traceback ?? ""].filter(Boolean).join("\n");
}

export function AttemptErrors({ job, attempts }: { job: Job; attempts: readonly Attempt[] }) {
  const [chosen, setChosen] = useState<number | null>(null);
  const [isComparing, setComparing] = useState(false);
  const failed = failedOf(job, attempts);
  const last = failed.length - 1;
  const index = chosen === null ? last : Math.min(chosen, last);
  const shown = failed[index];
  const before = failed[index - 1];
  useKeys({
    "[": () => setChosen(Math.max(index - 1, 0)),
    "]": () => setChosen(Math.min(index + 1, last)),
  });
  if (shown === undefined) return null;
  const isSame = before !== undefined && textOf(before.error) === textOf(shown.error);
  return (
    <Card
      title={t.job.lastError}
      actions={
        failed.length > 1 && (
          <div class="segments" role="group" aria-label={t.job.errorsByAttempt}>
            {failed.slice(-12).map((one) => (
              <button key={one.number} type="button" aria-pressed={one === shown} onClick={() => setChosen(failed.indexOf(one))}>
                {t.job.attempt} {one.number}
              </button>
            ))}
          </div>
        )
      }
    >
      <p class="bad">
        <strong>{shown.error.kind}</strong> {shown.error.message}
      </p>
      {before && (
        <p class="field">
          {isSame ? (
            <span class="faint">{t.job.sameError(before.number)}</span>
          ) : (
            <button type="button" class="small" aria-pressed={isComparing} onClick={() => setComparing(!isComparing)}>
              {isComparing ? t.job.showTraceback : t.job.compare(before.number)}
            </button>
          )}
        </p>
      )}
      {before && isComparing && !isSame ? <Difference before={textOf(before.error)} after={textOf(shown.error)} /> : shown.error.traceback && <Traceback text={shown.error.traceback} />}
    </Card>
  );
}

function Difference({ before, after }: { before: string; after: string }) {
  const signs = { same: "  ", removed: "- ", added: "+ " };
  return (
    <pre class="trace" tabIndex={0} aria-label={t.job.difference}>
      {diffLines(before, after).map((line) => (
        <div class={`diff-${line.kind}`}>{signs[line.kind] + line.text}</div>
      ))}
    </pre>
  );
}

/** A traceback; the frames of libraries are pale, so that those of the application stand out. */
export function Traceback({ text }: { text: string }) {
  const lines = text.replace(/\n$/, "").split("\n");
  const pale = ofLibraries(lines);
  return (
    <pre class="trace" tabIndex={0} aria-label={t.job.traceback}>
      {lines.map((line, index) => (
        <div class={pale[index] ? "library" : ""}>{line || " "}</div>
      ))}
    </pre>
  );
}
