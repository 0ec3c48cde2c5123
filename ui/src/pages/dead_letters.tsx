/** Dead letters, grouped by cause: retry a group, at a rate if wanted, discard it, write a note on it. */

import { useState } from "preact/hooks";
import { api, type LetterGroup } from "../api.ts";
import { Ago, Empty, Link, Loaded, PageHead, Table } from "../components/basics.tsx";
import { Sparkline } from "../components/charts.tsx";
import { ask } from "../components/dialog.tsx";
import { Traceback } from "../components/attempt_errors.tsx";
import { Icon } from "../components/icons.tsx";
import { OperationList } from "../components/operation_list.tsx";
import { begin, operate } from "../components/operations.tsx";
import { Permitted } from "../components/permitted.tsx";
import { attempt, toast } from "../components/toasts.tsx";
import { saveAs } from "../lib/download.ts";
import { useQuery } from "../lib/query.ts";
import { t } from "../strings.ts";

const words = t.deadPage;

export default function DeadLettersPage() {
  const groups = useQuery("dead-groups", api.deadGroups, { topic: "dead", every: 10 });
  const columns = words.columns;
  return (
    <>
      <PageHead title={words.title}>
        {groups.data && groups.data.items.length > 0 && (
          <button type="button" onClick={() => void download()}>
            <Icon name="download" /> {words.exportAll}
          </button>
        )}
      </PageHead>
      <OperationList />
      <div class="card">
        <Loaded query={groups}>
          {(data) =>
            data.items.length === 0 ? (
              <Empty title={words.empty} body={words.emptyBody} command={words.emptyCommand} />
            ) : (
              <>
                {!data.is_complete && <p class="notice">{words.partial}</p>}
                <Table
                  caption={words.caption}
                  isCards
                  head={
                    <>
                      <th class="fill">{columns.error}</th>
                      <th>{columns.type}</th>
                      <th class="right">{columns.count}</th>
                      <th>{columns.trend}</th>
                      <th>{columns.first}</th>
                      <th>{columns.last}</th>
                      <th>
                        <span class="sr-only">{t.actions}</span>
                      </th>
                    </>
                  }
                >
                  {data.items.map((group) => (
                    <Row key={group.type + group.fingerprint} group={group} onChange={groups.reload} />
                  ))}
                </Table>
              </>
            )
          }
        </Loaded>
      </div>
    </>
  );
}

function jobsOf(group: LetterGroup): string {
  const fingerprint = group.fingerprint ? `&fingerprint=${encodeURIComponent(group.fingerprint)}` : "";
  return `/jobs?status=dead&type=${encodeURIComponent(group.type)}${fingerprint}`;
}

function Row({ group, onChange }: { group: LetterGroup; onChange: () => void }) {
  const [isOpen, setOpen] = useState(false);
  const done = (isDone: boolean): void => {
    if (isDone) onChange();
  };
  return (
    <>
      <tr>
        <td class="fill">
          <div class="clip two strong" title={group.error?.message}>
            {group.error?.message || t.deadPage.unknown}
          </div>
          <div class="hint">
            <code>{group.error?.kind}</code>{" "}
            {group.error?.traceback && (
              <button type="button" class="quiet small" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
                {t.job.traceback} <Icon name="down" size={12} />
              </button>
            )}
          </div>
          {group.note && (
            <p class="note">
              {group.note.text}{" "}
              <span class="faint">
                {words.noteBy(group.note.set_by)} <Ago at={group.note.set_at} />
              </span>
            </p>
          )}
        </td>
        <td>
          {group.type}
          {group.tags.map((tag) => (
            <span key={tag} class="tag">
              {tag}
            </span>
          ))}
        </td>
        <td class="right">
          <Link to={jobsOf(group)}>{t.count(group.count)}</Link>
        </td>
        <td>
          <Trend values={group.trend} />
        </td>
        <td class="number">
          <Ago at={group.first_at} />
        </td>
        <td class="number">
          <Ago at={group.last_at} />
        </td>
        <td class="actions">
          <div class="row">
            <Link to={jobsOf(group)} class="button small">
              {words.show}
            </Link>
            <Permitted needs={["jobs.operate", "jobs.retry"]} class="small" onClick={() => void retry(group).then(done)}>
              <Icon name="retry" size={14} /> {words.retryGroup}
            </Permitted>
            <Permitted needs="dead_letters.note" class="small" onClick={() => void annotate(group).then(done)}>
              {words.note}
            </Permitted>
            <Permitted needs={["jobs.operate", "dead_letters.discard"]} class="small danger" onClick={() => void discard(group).then(done)}>
              <Icon name="trash" size={14} /> {words.discardGroup}
            </Permitted>
          </div>
        </td>
      </tr>
      {isOpen && (
        <tr>
          <td colSpan={7}>
            <Traceback text={group.error?.traceback ?? ""} />
          </td>
        </tr>
      )}
    </>
  );
}

function Trend({ values }: { values: readonly number[] }) {
  const total = values.reduce((sum, value) => sum + value, 0);
  if (total === 0) return <span class="faint">{t.none}</span>;
  const text = words.trend(total, Math.max(...values));
  return (
    <div title={text}>
      <Sparkline values={values} />
      <span class="sr-only">{text}</span>
    </div>
  );
}

async function annotate(group: LetterGroup): Promise<boolean> {
  const answer = await ask({
    title: words.noteTitle(group.type),
    body: words.noteBody,
    action: words.noteSave,
    field: { label: words.note, hint: words.noteHint, value: group.note?.text ?? "" },
  });
  const text = answer?.text.trim();
  if (text === undefined || (text === "" && group.note === null)) return false;
  return text === ""
    ? attempt(() => api.removeDeadNote(group.type, group.fingerprint), () => words.noteRemoved)
    : attempt(() => api.setDeadNote(group.type, group.fingerprint, text), () => words.noteSaved);
}

/** The search for the jobs of a group. */
function searchFor(group: LetterGroup): string {
  const literal = `"${group.type.replace(/\\/g, "\\\\").replace(/"/g, '\\"')}"`;
  return `status:dead type:${literal}${group.fingerprint ? ` fingerprint:${group.fingerprint}` : ""}`;
}

function retry(group: LetterGroup): Promise<boolean> {
  return operate({ action: "retry", q: searchFor(group) });
}

async function discard(group: LetterGroup): Promise<boolean> {
  const answer = await ask({ title: words.discardTitle(group.count), body: words.discardBody, action: words.discardGroup, isDangerous: true });
  return answer !== null && begin({ action: "delete", q: searchFor(group) }, t.operations.begins(t.operations.verbs.delete, t.count(group.count), 10));
}

async function download(): Promise<void> {
  try {
    saveAs(await (await api.exportDead()).blob(), "dead-letters.jsonl");
  } catch (error) {
    toast(String(error), "bad");
  }
}
