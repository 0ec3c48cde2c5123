/** Saved filters and columns of the list of jobs. The server keeps them: for the caller, or for everybody. */

import { useState } from "preact/hooks";
import { access, api, may, type View } from "../api.ts";
import { type Filter, filterOf, isViewOf, queryOf, viewOf } from "../lib/filter.ts";
import { useQuery } from "../lib/query.ts";
import { t } from "../strings.ts";
import { Link } from "./basics.tsx";
import { ask } from "./dialog.tsx";
import { Icon } from "./icons.tsx";
import { attempt } from "./toasts.tsx";

export function SavedViews({ filter, columns }: { filter: Filter; columns: string | null }) {
  const saved = useQuery("views", api.views, { every: 60 });
  const [isOpen, setOpen] = useState(false);
  const isFiltered = queryOf(filter).toString() !== "" || columns !== null;
  const views = saved.data?.items ?? [];
  const isKnown = views.some((one) => isViewOf(one.query, filter, columns));
  const isReadOnly = access.value?.read_only === true;
  const change = async (act: () => Promise<unknown>, said: string, undo?: () => void): Promise<void> => {
    await attempt(act, () => said, undo);
    saved.reload();
  };
  const save = async (): Promise<void> => {
    // Where no token is needed, all callers are one: every view is shared.
    const isPersonal = access.value?.requires_token === true;
    const answer = await ask({
      title: t.views.saveTitle,
      body: isPersonal ? t.views.saveBody : t.views.saveForAll,
      action: t.views.save,
      field: { label: t.views.name },
      ...(isPersonal && may("jobs.operate") ? { choice: { label: t.views.share } } : {}),
    });
    const name = answer?.text.trim();
    if (!name) return;
    await change(() => api.saveView(name, viewOf(filter, columns), answer?.isChosen === true), t.views.saved(name));
  };
  const remove = (view: View): Promise<void> =>
    change(() => api.removeView(view), t.views.removed(view.name), () => void change(() => api.saveView(view.name, view.query, view.is_shared), t.views.saved(view.name)));
  if (views.length === 0 && (!isFiltered || isReadOnly)) return null;
  return (
    <div class="row views">
      {views.map((one) => (
        <span key={`${one.is_shared} ${one.name}`} class={`view ${isViewOf(one.query, filter, columns) ? "view-current" : ""}`}>
          <Link to={`/jobs?${one.query}`} aria-current={isViewOf(one.query, filter, columns) ? "true" : undefined} title={about(one)}>
            {one.name}
          </Link>
          {isOpen && (
            <button type="button" class="quiet small" aria-label={t.views.remove(one.name)} onClick={() => void remove(one)}>
              <Icon name="close" size={12} />
            </button>
          )}
        </span>
      ))}
      {isFiltered && !isKnown && !isReadOnly && (
        <button type="button" class="quiet small" onClick={() => void save()}>
          <Icon name="plus" size={14} /> {t.views.save}
        </button>
      )}
      {views.length > 0 && !isReadOnly && (
        <button type="button" class="quiet small" aria-pressed={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? t.views.done : t.views.edit}
        </button>
      )}
    </div>
  );
}

/** What a view shows, and who shared it. */
function about(view: View): string {
  const filter = filterOf(new URLSearchParams(view.query));
  const words = Object.entries(filter).map(([name, value]) => (name === "q" ? value : `${name}:${value}`));
  return [words.join(" "), view.is_shared ? t.views.sharedBy(view.saved_by) : ""].filter(Boolean).join("\n");
}
