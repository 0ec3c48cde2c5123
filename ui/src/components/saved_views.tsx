/** Saved filters and columns of the list of jobs. They are kept in this browser; the address of a view shares it with others. */

import { useState } from "preact/hooks";
import { type Filter, filterOf, isViewOf, queryOf, viewOf } from "../lib/filter.ts";
import { savedViews } from "../lib/preferences.ts";
import { t } from "../strings.ts";
import { Link } from "./basics.tsx";
import { ask } from "./dialog.tsx";
import { Icon } from "./icons.tsx";
import { toast, undoable } from "./toasts.tsx";

const MOST = 30;

export function SavedViews({ filter, columns }: { filter: Filter; columns: string | null }) {
  const isFiltered = queryOf(filter).toString() !== "" || columns !== null;
  const [isOpen, setOpen] = useState(false);
  const views = savedViews.value;
  const isKnown = views.some((one) => isViewOf(one.query, filter, columns));
  const save = async (): Promise<void> => {
    const answer = await ask({ title: t.views.saveTitle, body: t.views.saveBody, action: t.views.save, field: { label: t.views.name } });
    const name = answer?.text.trim();
    if (!name) return;
    savedViews.value = [...views.filter((one) => one.name !== name), { name, query: viewOf(filter, columns) }].slice(-MOST);
    toast(t.views.saved(name));
  };
  const remove = (name: string): void => {
    savedViews.value = views.filter((one) => one.name !== name);
    undoable(t.views.removed(name), 10_000, () => (savedViews.value = views));
  };
  if (views.length === 0 && !isFiltered) return null;
  return (
    <div class="row views">
      {views.map((one) => (
        <span key={one.name} class={`view ${isViewOf(one.query, filter, columns) ? "view-current" : ""}`}>
          <Link to={`/jobs?${one.query}`} aria-current={isViewOf(one.query, filter, columns) ? "true" : undefined} title={words(one.query)}>
            {one.name}
          </Link>
          {isOpen && (
            <button type="button" class="quiet small" aria-label={t.views.remove(one.name)} onClick={() => remove(one.name)}>
              <Icon name="close" size={12} />
            </button>
          )}
        </span>
      ))}
      {isFiltered && !isKnown && (
        <button type="button" class="quiet small" onClick={() => void save()}>
          <Icon name="plus" size={14} /> {t.views.save}
        </button>
      )}
      {views.length > 0 && (
        <button type="button" class="quiet small" aria-pressed={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? t.views.done : t.views.edit}
        </button>
      )}
    </div>
  );
}

function words(query: string): string {
  const filter = filterOf(new URLSearchParams(query));
  return Object.entries(filter)
    .map(([name, value]) => (name === "q" ? value : `${name}:${value}`))
    .join(" ");
}
