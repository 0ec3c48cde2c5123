/** Jobs: a filtered list with the keyboard, a bulk bar and a drawer. The URL holds the whole filter. */

import { Component, type ComponentChildren, type RefObject } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { api, FINISHED, type Job, type JobAction, type Page, STATES, isSignedIn } from "../api.ts";
import { Ago, Empty, Link, Loaded, PageHead, StateBadge, Table, Took } from "../components/basics.tsx";
import { ColumnChooser } from "../components/columns.tsx";
import { CopyAs } from "../components/copy.tsx";
import { HistogramCard } from "../components/histogram.tsx";
import { Icon } from "../components/icons.tsx";
import { act, actionsOf, ICONS, LABELS, NEEDS } from "../components/job_actions.tsx";
import { OperationList } from "../components/operation_list.tsx";
import { operate } from "../components/operations.tsx";
import { Permitted } from "../components/permitted.tsx";
import { SavedViews } from "../components/saved_views.tsx";
import { SubmitForm } from "../components/submit_form.tsx";
import { type Filter, FILTERS, filterOf, lastWord, queryOf, readSearch, SEARCH_FIELDS, searchOf, SUGGESTED, viewOf } from "../lib/filter.ts";
import { type Column, columnsOf, columnsText, USUAL } from "../lib/columns.ts";
import { useKeys } from "../lib/keyboard.ts";
import { chosenColumns } from "../lib/preferences.ts";
import { useQuery } from "../lib/query.ts";
import { DRAWN_WHOLE, useRowWindow } from "../lib/row_window.ts";
import { apiBase, navigate, parameters, setParameters } from "../lib/router.ts";
import { listSnippets } from "../lib/snippets.ts";
import { stats } from "../live.ts";
import { t } from "../strings.ts";
import { JobView } from "./job.tsx";

const PAGE_SIZE = 100;
/** Whoever asks for more wants to look far: fewer requests, and the table is laid out less often. */
const MORE_SIZE = 500;

export default function JobsPage() {
  const filter = filterOf(parameters.value);
  const key = queryOf(filter).toString();
  // The address may ask for the form, so that the palette can lead to it.
  const isSubmitting = parameters.value.get("submit") === "1";
  // The columns of this browser are part of the address too, so that a copy of it shows the same table.
  const isBare = parameters.value.get("columns") === null && columnsOf(chosenColumns.value) !== null;
  useEffect(() => {
    if (isBare) setParameters({ columns: chosenColumns.peek() }, { replace: true });
  }, [isBare]);
  const setSubmitting = (isOpen: boolean): void => setParameters({ submit: isOpen ? "1" : null }, { replace: true });
  return (
    <>
      <PageHead title={t.jobsPage.title}>
        <ColumnChooser columns={shownColumns()} onChoose={choose} />
        <CopyAs snippets={() => listSnippets(apiBase.href.replace(/\/$/, ""), filter, isSignedIn.value)} />
        <Permitted needs="jobs.submit" class="primary" onClick={() => setSubmitting(true)}>
          <Icon name="plus" /> {t.jobsPage.submit}
        </Permitted>
      </PageHead>
      <StateFilter filter={filter} />
      <FilterBar filter={filter} />
      <div class="filter-row">
        <Chips filter={filter} />
        <SavedViews filter={filter} columns={parameters.value.get("columns")} />
      </div>
      <OperationList />
      <HistogramCard filter={filter} />
      <JobList key={key} filter={filter} filterKey={key} />
      {isSubmitting && <SubmitForm onClose={() => setSubmitting(false)} />}
      {parameters.value.get("job") && <Drawer id={parameters.value.get("job") ?? ""} />}
    </>
  );
}

/** The columns that the address names, otherwise those that were chosen in this browser. */
function shownColumns(): readonly Column[] {
  return columnsOf(parameters.value.get("columns")) ?? columnsOf(chosenColumns.value) ?? USUAL;
}

/** Keeps the columns in this browser, and in the address for whoever gets the link. */
function choose(columns: readonly Column[]): void {
  const text = columnsText(columns);
  chosenColumns.value = text ?? "";
  setParameters({ columns: text }, { replace: true });
}

/** The address of a list; the columns that the address names stay. */
function toList(filter: Filter): string {
  const query = viewOf(filter, parameters.value.get("columns"));
  return `/jobs${query ? `?${query}` : ""}`;
}

function StateFilter({ filter }: { filter: Filter }) {
  const { status: _, ...rest } = filter;
  const counts = stats.value?.states;
  return (
    <nav class="filter" aria-label={t.jobsPage.stateFilter}>
      <div class="segments">
        <Link to={toList(rest)} aria-current={filter.status ? undefined : "true"}>
          {t.jobsPage.allStates}
        </Link>
        {STATES.map((state) => (
          <Link key={state} to={toList({ ...rest, status: state })} aria-current={filter.status === state ? "true" : undefined}>
            {t.states[state]} {counts && <span class="count">{t.count(counts[state] ?? 0)}</span>}
          </Link>
        ))}
      </div>
    </nav>
  );
}

function FilterBar({ filter }: { filter: Filter }) {
  const [text, setText] = useState("");
  const completions = useCompletions(text);
  const age = /^created:<(.+)$/.exec(filter.q ?? "")?.[1] ?? "any";
  const apply = (): void => {
    const search = readSearch(text);
    if (search.job) setParameters({ job: search.job });
    else setParameters({ ...search.filter, job: null });
    setText("");
  };
  return (
    <div class="filter">
      <form
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          apply();
        }}
      >
        <input type="search" list="search-completions" autocomplete="off" aria-label={t.jobsPage.filterLabel} placeholder={t.jobsPage.filterPlaceholder} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        <datalist id="search-completions">
          {completions.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
        <button type="submit">{t.jobsPage.apply}</button>
      </form>
      <label class="row">
        <span class="hint">{t.jobsPage.age}</span>
        <select value={age in t.jobsPage.ages ? age : "any"} onChange={(event) => setParameters({ q: event.currentTarget.value === "any" ? null : `created:<${event.currentTarget.value}` })}>
          {Object.entries(t.jobsPage.ages).map(([value, words]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

/** Completes the last word of a search: names of fields, then values that are in use. */
function useCompletions(text: string): string[] {
  const [found, setFound] = useState<string[]>([]);
  useEffect(() => {
    const { before, field, value } = lastWord(text);
    if (field === null) {
      setFound(value === "" ? [] : SEARCH_FIELDS.filter((name) => name.startsWith(value)).map((name) => `${before}${name}:`));
      return;
    }
    if (!SUGGESTED.includes(field)) {
      setFound([]);
      return;
    }
    const stop = new AbortController();
    const timer = setTimeout(() => {
      api.suggest(field, value.replace(/^"/, ""), stop.signal).then(
        (reply) => setFound(reply.items.map((one) => before + (/[\s,*"]/.test(one) ? JSON.stringify(one) : one))),
        () => setFound([]),
      );
    }, 150);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [text]);
  return found;
}

function Chips({ filter }: { filter: Filter }) {
  const chips = FILTERS.filter((name) => filter[name] !== undefined);
  if (chips.length === 0) return null;
  return (
    <div class="chips">
      {chips.map((name) => {
        const words = name === "q" ? (filter.q ?? "") : `${name}:${filter[name]}`;
        return (
          <button key={name} type="button" class="chip" aria-label={t.jobsPage.remove(words)} onClick={() => setParameters({ [name]: null })}>
            <code>{words}</code> <Icon name="close" size={14} />
          </button>
        );
      })}
      <button type="button" class="quiet small" onClick={() => navigate(toList({}))}>
        {t.jobsPage.clear}
      </button>
    </div>
  );
}

function JobList({ filter, filterKey }: { filter: Filter; filterKey: string }) {
  const first = useQuery(`jobs?${filterKey}`, (signal) => api.jobs(filter, null, PAGE_SIZE, signal), { topic: "jobs", every: 10 });
  const [more, setMore] = useState<Page<Job> | null>(null);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [at, setAt] = useState(-1);
  const items = useMemo(() => merged(first.data, more), [first.data, more]);
  const cursor = more ? more.next_cursor : (first.data?.next_cursor ?? null);
  const columns = shownColumns();
  // The same function always, so that the rows that did not change need not be drawn.
  const toggle = useCallback((id: string): void => {
    setSelected((known) => {
      const changed = new Set(known);
      if (!changed.delete(id)) changed.add(id);
      return changed;
    });
  }, []);
  const loadMore = async (): Promise<void> => {
    const page = await api.jobs(filter, cursor, MORE_SIZE);
    setMore({ items: [...(more?.items ?? []), ...page.items], next_cursor: page.next_cursor });
  };
  // A rare match among many jobs is found over several answers.
  useEffect(() => {
    if (items.length === 0 && cursor !== null) void loadMore().catch(() => undefined);
  }, [items.length, cursor]);
  const move = (step: number): void => {
    const next = Math.min(Math.max(at + step, 0), items.length - 1);
    setAt(next);
    document.querySelector(`tr[data-job="${items[next]?.id}"]`)?.scrollIntoView({ block: "nearest" });
    if (parameters.peek().get("job") && items[next]) setParameters({ job: items[next].id }, { replace: true });
  };
  useKeys(
    {
      j: () => move(1),
      k: () => move(-1),
      x: () => items[at] && toggle(items[at].id),
      Enter: (event) => {
        const target = event.target as HTMLElement;
        if (target.closest("a, button")) target.click();
        else if (items[at]) setParameters({ job: items[at].id });
      },
      Escape: () => (parameters.peek().get("job") ? setParameters({ job: null }) : setSelected(new Set())),
    },
  );
  return (
    <div class="card">
      <Loaded query={first}>
        {() =>
          items.length === 0 && cursor === null ? (
            filterKey ? (
              <Empty title={t.jobsPage.noMatch} body={t.jobsPage.noMatchBody}>
                <Link to={toList({})}>{t.jobsPage.clear}</Link>
              </Empty>
            ) : (
              <Empty title={t.jobsPage.empty} body={t.jobsPage.emptyBody} command={t.jobsPage.emptyCommand} />
            )
          ) : (
            <>
              <JobTable items={items} at={at} selected={selected} columns={columns} onToggle={toggle} onSelect={setSelected} />
              <div class="table-foot">
                <span role="status">{t.jobsPage.shown(items.length, cursor !== null)}</span>
                {cursor && (
                  <button type="button" class="small" onClick={() => void loadMore()}>
                    {t.more}
                  </button>
                )}
                <AllMatching filter={filter} />
              </div>
            </>
          )
        }
      </Loaded>
      {selected.size > 0 && <BulkBar jobs={items.filter((job) => selected.has(job.id))} onDone={() => { setSelected(new Set()); first.reload(); }} onClear={() => setSelected(new Set())} />}
    </div>
  );
}

/** Actions on all jobs of the filter, also those that are not loaded. */
function AllMatching({ filter }: { filter: Filter }) {
  const search = searchOf(filter);
  if (search === null) return null;
  return (
    <>
      {(["retry", "run_now", "cancel"] as const).map((action) => (
        <Permitted key={action} needs={["jobs.operate", action === "cancel" ? "jobs.cancel" : "jobs.retry"]} class={`small ${action === "cancel" ? "danger" : ""}`} onClick={() => void operate({ action, q: search })}>
          {t.operations.allMatching[action]}
        </Permitted>
      ))}
    </>
  );
}

/** Joins the live first page with the pages that were loaded behind it. */
function merged(first: Page<Job> | null, more: Page<Job> | null): Job[] {
  const items = first?.items ?? [];
  const known = new Set(items.map((job) => job.id));
  return [...items, ...(more?.items ?? []).filter((job) => !known.has(job.id))];
}

/** What stands in each column. */
const CELLS: Record<Column, (job: Job) => ComponentChildren> = {
  state: (job) => <StateBadge state={job.status} />,
  type: (job) => (
    <Link to={drawerLink(job.id)} class="strong">
      <span class="clip">{job.type}</span>
    </Link>
  ),
  id: (job) => (
    <Link to={`/jobs/${job.id}`} class="mono">
      {job.id}
    </Link>
  ),
  queue: (job) => job.queue,
  priority: (job) => job.priority,
  attempts: (job) => `${job.attempts}/${job.max_attempts}`,
  tags: (job) => (job.tags ?? []).map((tag) => <span class="tag">{tag}</span>),
  worker: (job) => job.worker_id && <div class="clip">{job.worker_id}</div>,
  schedule: (job) =>
    job.schedule_id && (
      <Link to={`/schedules/${job.schedule_id}`} class="mono">
        {job.schedule_id}
      </Link>
    ),
  created: (job) => <Ago at={job.created_at} />,
  due: (job) => <Ago at={job.run_at} />,
  started: (job) => <Ago at={job.started_at} />,
  ended: (job) => <Ago at={job.completed_at} />,
  when: (job) => <When job={job} />,
  took: (job) => (job.started_at && (job.completed_at || job.status === "running") ? <Took from={job.started_at} to={job.completed_at} /> : <span class="faint">{t.none}</span>),
  error: (job) => (
    <div class="clip faint" title={job.error?.message}>
      {job.error?.message || job.error?.kind || ""}
    </div>
  ),
};
const CLASSES: Partial<Record<Column, string>> = {
  priority: "right", attempts: "right", tags: "tags", created: "number", due: "number", started: "number", ended: "number",
  when: "number", took: "right", error: "fill",
}; // prettier-ignore
/** Columns of the usual choice that a narrow screen has no room for; columns that a person chose are all shown. */
const WIDE: readonly Column[] = ["id", "queue", "attempts", "took"];

function classOf(column: Column, isUsual: boolean): string {
  return `${CLASSES[column] ?? ""} ${isUsual && WIDE.includes(column) ? "narrow-hide" : ""}`.trim();
}

function JobTable(props: {
  items: Job[];
  at: number;
  selected: ReadonlySet<string>;
  columns: readonly Column[];
  onToggle: (id: string) => void;
  onSelect: (ids: ReadonlySet<string>) => void;
}) {
  const areAll = props.items.length > 0 && props.items.every((job) => props.selected.has(job.id));
  const isUsual = columnsText(props.columns) === null;
  const text = props.columns.join(",");
  const mark = useRef<HTMLTableRowElement>(null);
  const shown = useRowWindow(props.items.length, mark);
  useSteadyColumns(mark, shown !== null, text);
  return (
    <Table
      caption={t.jobsPage.caption}
      isCards={!isUsual}
      head={
        <>
          <th>
            <input type="checkbox" aria-label={t.jobsPage.selectAll} checked={areAll} onChange={() => props.onSelect(areAll ? new Set() : new Set(props.items.map((job) => job.id)))} />
          </th>
          {props.columns.map((column) => (
            <th key={column} class={classOf(column, isUsual)}>
              {t.jobsPage.columns[column]}
            </th>
          ))}
        </>
      }
    >
      {props.items.length > DRAWN_WHOLE && (
        <tr ref={mark} class="room" aria-hidden="true">
          <td colSpan={props.columns.length + 1} style={{ height: `${shown?.above ?? 0}px` }} />
        </tr>
      )}
      {props.items.slice(shown?.start ?? 0, shown?.end).map((job, index) => (
        <Row key={job.id} job={job} isCurrent={index + (shown?.start ?? 0) === props.at} isSelected={props.selected.has(job.id)} columns={text} isUsual={isUsual} onToggle={props.onToggle} />
      ))}
      {shown && (
        <tr class="room" aria-hidden="true">
          <td colSpan={props.columns.length + 1} style={{ height: `${shown.below}px` }} />
        </tr>
      )}
    </Table>
  );
}

/** Keeps the widths of the columns while rows come and go. */
function useSteadyColumns(mark: RefObject<HTMLTableRowElement | null>, isSteady: boolean, columns: string): void {
  useLayoutEffect(() => {
    const table = mark.current?.closest("table");
    if (!table || !isSteady) return;
    const cells = [...(table.tHead?.rows[0]?.cells ?? [])];
    const widths = cells.map((cell) => `${cell.offsetWidth}px`);
    cells.forEach((cell, at) => (cell.style.width = widths[at] ?? ""));
    table.style.tableLayout = "fixed";
    return () => {
      table.style.tableLayout = "";
      for (const cell of cells) cell.style.width = "";
    };
  }, [isSteady, columns]);
}

interface RowProps {
  job: Job;
  isCurrent: boolean;
  isSelected: boolean;
  /** As text, so that it is the same value as long as the same columns are shown. */
  columns: string;
  isUsual: boolean;
  onToggle: (id: string) => void;
}

/** A row that is drawn anew only when its props change: a list that was loaded for long has thousands. */
class Row extends Component<RowProps> {
  override shouldComponentUpdate(next: RowProps): boolean {
    return (Object.keys(next) as (keyof RowProps)[]).some((name) => next[name] !== this.props[name]);
  }

  override render(props: RowProps) {
    return <Cells {...props} />;
  }
}

function Cells({ job, isCurrent, isSelected, columns, isUsual, onToggle }: RowProps) {
  return (
    <tr data-job={job.id} class={`${isCurrent ? "current" : ""} ${isSelected ? "selected" : ""}`}>
      <td>
        <input type="checkbox" aria-label={t.jobsPage.select(job.id)} checked={isSelected} onChange={() => onToggle(job.id)} />
      </td>
      {(columns.split(",") as Column[]).map((column) => (
        <td key={column} class={classOf(column, isUsual)}>
          {CELLS[column](job)}
        </td>
      ))}
    </tr>
  );
}

/** The moment that matters: the end of a finished job, the due time of a waiting one, the start of a running one. */
function When({ job }: { job: Job }) {
  if (FINISHED.includes(job.status)) return <Ago at={job.completed_at ?? job.updated_at} />;
  if (job.status === "running") return <Ago at={job.started_at} />;
  return <Ago at={job.run_at} />;
}

function drawerLink(id: string): string {
  const query = new URLSearchParams(parameters.value);
  query.set("job", id);
  return `/jobs?${query}`;
}

function BulkBar({ jobs, onDone, onClear }: { jobs: Job[]; onDone: () => void; onClear: () => void }) {
  const able = (action: JobAction): Job[] => jobs.filter((job) => actionsOf(job).includes(action));
  return (
    <div class="bulk" role="region" aria-label={t.jobsPage.selected(jobs.length)}>
      <strong>{t.jobsPage.selected(jobs.length)}</strong>
      {(["retry", "run-now", "cancel"] as const).map((action) => {
        const ids = able(action).map((job) => job.id);
        return (
          ids.length > 0 && (
            <Permitted key={action} needs={action === "cancel" ? ["jobs.operate", "jobs.cancel"] : NEEDS[action]} class={action === "cancel" ? "danger" : ""} onClick={() => void act(ids, action).then((isDone) => isDone && onDone())}>
              <Icon name={ICONS[action]} /> {LABELS[action]} ({ids.length})
            </Permitted>
          )
        );
      })}
      <button type="button" class="quiet" onClick={onClear}>
        {t.jobsPage.clearSelection}
      </button>
    </div>
  );
}

/** One job beside the list. It is not modal: the list stays usable. */
function Drawer({ id }: { id: string }) {
  const box = useRef<HTMLElement>(null);
  const before = useRef<Element | null>(null);
  useEffect(() => {
    before.current = document.activeElement;
    box.current?.focus();
    return () => (before.current as HTMLElement | null)?.focus?.();
  }, []);
  return (
    <aside class="drawer" ref={box} tabIndex={-1} aria-label={t.job.title}>
      <JobView key={id} id={id} onClose={() => setParameters({ job: null })} />
    </aside>
  );
}
