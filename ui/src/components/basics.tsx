/** Small building blocks that all pages use. */

import { computed } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ApiError, State } from "../api.ts";
import { colouredJson, prettyJson } from "../lib/json.ts";
import { zone } from "../lib/preferences.ts";
import { href } from "../lib/router.ts";
import { absolute, duration, relative } from "../lib/time.ts";
import { now } from "../live.ts";
import { t } from "../strings.ts";
import { copyText } from "./copy.tsx";
import { Icon } from "./icons.tsx";

interface LinkProps {
  to: string;
  children: ComponentChildren;
  class?: string;
  title?: string;
  "aria-label"?: string;
  "aria-current"?: "true" | undefined;
}

/** A link to a page of the dashboard. */
export function Link({ to, children, class: name = "", title = "", "aria-label": label, "aria-current": current }: LinkProps) {
  return (
    <a href={href(to)} class={name} title={title || undefined} aria-label={label} aria-current={current}>
      {children}
    </a>
  );
}

export function StateBadge({ state }: { state: State }) {
  return (
    <span class={`state state-${state}`}>
      <span class="dot" aria-hidden="true" />
      {t.states[state] ?? state}
    </span>
  );
}

/** A word with a coloured dot: good, warning, bad, busy or idle. */
export function Lamp({ tone, children }: { tone: "good" | "warn" | "bad" | "busy" | "idle"; children: ComponentChildren }) {
  return (
    <span class={`state tone-${tone}`}>
      <span class="dot" aria-hidden="true" />
      {children}
    </span>
  );
}

/** A moment in all zones: the browser's, UTC, and that of a schedule. */
function everywhere(at: string, place?: string): string {
  const times = [`${absolute(at, "local")} ${t.zone.local.toLowerCase()}`, absolute(at, "utc")];
  return [...times, ...(place && place !== "UTC" ? [absolute(at, "schedule", place)] : [])].join(" · ");
}

/** A moment relative to now; the absolute time in all zones is in its title. `place` is the zone of a schedule. */
export function Ago({ at, fallback = t.none, place }: { at: string | null | undefined; fallback?: string; place?: string }) {
  // Drawn anew when the words change, not every second: a long list has thousands of moments.
  const words = useMemo(() => computed(() => (at ? relative(at, now.value) : fallback)), [at, fallback]).value;
  if (!at) return <span class="faint">{words}</span>;
  return (
    <time dateTime={at} title={everywhere(at, place)}>
      {words}
    </time>
  );
}

/** A moment as date and time, in the chosen zone. `place` is the zone of a schedule. */
export function Moment({ at, fallback = t.none, place }: { at: string | null | undefined; fallback?: string; place?: string }) {
  if (!at) return <span class="faint">{fallback}</span>;
  return (
    <time dateTime={at} title={`${everywhere(at, place)} · ${relative(at, now.value)}`}>
      {absolute(at, zone.value, place)}
    </time>
  );
}

/** How long something took, or takes until now. */
export function Took({ from, to }: { from: string | null; to: string | null }) {
  if (!from) return <span class="faint">{t.none}</span>;
  const end = to ? new Date(to).getTime() : now.value;
  return <span class="number">{duration(end - new Date(from).getTime())}</span>;
}

export function Card(props: {
  title?: ComponentChildren;
  hint?: ComponentChildren;
  actions?: ComponentChildren;
  class?: string;
  isFlush?: boolean;
  children: ComponentChildren;
}) {
  return (
    <section class={`card ${props.class ?? ""}`}>
      {props.title !== undefined && (
        <header class="card-head">
          <h2>{props.title}</h2>
          {props.hint && <span class="hint">{props.hint}</span>}
          {props.actions && <div class="card-actions">{props.actions}</div>}
        </header>
      )}
      <div class={props.isFlush ? "card-flush" : "card-body"}>{props.children}</div>
    </section>
  );
}

export function PageHead({ title, children, note }: { title: ComponentChildren; note?: ComponentChildren; children?: ComponentChildren }) {
  return (
    <header class="page-head">
      <h1 tabIndex={-1}>{title}</h1>
      {note && <span class="hint">{note}</span>}
      <div class="page-actions">{children}</div>
    </header>
  );
}

/** What stands where there is nothing: what it is, and the command that would put something there. */
export function Empty({ title, body, command, children }: { title: string; body?: string; command?: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {body && <p>{body}</p>}
      {command && <Command text={command} />}
      {children}
    </div>
  );
}

export function Command({ text }: { text: string }) {
  return (
    <div class="command">
      <code>{text}</code>
      <button type="button" class="quiet" aria-label={t.copy} onClick={() => void copyText(text)}>
        <Icon name="copy" />
      </button>
    </div>
  );
}

/** A remedy: a command to copy if it is one, otherwise its words. */
export function Remedy({ text }: { text: string }) {
  if (!/^rota |: rota /.test(text)) return <>{text}</>;
  return <Command text={text.replace(/^.*?(?=rota )/, "")} />;
}

export function Loading() {
  return (
    <p class="loading" role="status">
      {t.loading}
    </p>
  );
}

/** An error where a page would be. */
export function Failure({ error, retry }: { error: ApiError; retry?: () => void }) {
  const titles: Record<number, string> = { 0: t.errors.unreachable, 403: t.errors.forbidden, 404: t.errors.notFound };
  const title = titles[error.status] ?? (error.status >= 500 ? t.errors.server : t.errors.other);
  return (
    <div class="empty" role="alert">
      <p class="empty-title">
        {title}
        {error.status > 0 && <span class="faint"> {error.status}</span>}
      </p>
      <p>{error.detail}</p>
      {error.fix && <p class="faint">{error.fix}</p>}
      <p class="row centre">
        {retry && error.status !== 404 && (
          <button type="button" onClick={retry}>
            {t.errors.retry}
          </button>
        )}
        <Link to="/">{t.errors.home}</Link>
      </p>
    </div>
  );
}

/** Data, or why there is none yet. Old data stays visible beside an error. */
export function Loaded<T>(props: {
  query: { data: T | null; error: ApiError | null; reload: () => void };
  children: (data: T) => ComponentChildren;
}) {
  const { data, error, reload } = props.query;
  if (data === null) return error ? <Failure error={error} retry={reload} /> : <Loading />;
  return (
    <>
      {error && (
        <p class="notice" role="alert">
          {error.detail} {t.errors.showsOld}
        </p>
      )}
      {props.children(data)}
    </>
  );
}

/** JSON text as it was stored, indented; no number is rewritten. */
export function Json({ text, label }: { text: string; label: string }) {
  const [isWhole, setWhole] = useState(false);
  const pretty = prettyJson(text);
  const isLong = pretty.length > 6_000 && !isWhole;
  const shown = isLong ? pretty.slice(0, 6_000) : pretty;
  return (
    <div class="json">
      <button type="button" class="quiet json-copy" aria-label={`${t.copy} ${label}`} onClick={() => void copyText(text)}>
        <Icon name="copy" />
      </button>
      <pre tabIndex={0} aria-label={label}>
        {colouredJson(shown).map((part) => (part.kind === "mark" ? part.text : <span class={`json-${part.kind}`}>{part.text}</span>))}
        {isLong && "…"}
      </pre>
      {isLong && (
        <button type="button" class="quiet" onClick={() => setWhole(true)}>
          {t.more}
        </button>
      )}
    </div>
  );
}

/**
 * A table that scrolls sideways by itself where the screen is narrow. With `isCards`, each row is a card on a phone, so that
 * nothing is out of sight: the names of the columns stand before the values.
 */
export function Table(props: { caption: string; head: ComponentChildren; children: ComponentChildren; class?: string; isCards?: boolean }) {
  const { caption, head, children, class: name, isCards } = props;
  const table = useRef<HTMLTableElement>(null);
  useLayoutEffect(() => {
    if (!isCards || !table.current) return;
    const names = [...(table.current.tHead?.rows[0]?.cells ?? [])].map((cell) => (cell.querySelector(".sr-only") ? "" : (cell.textContent ?? "")));
    for (const row of table.current.tBodies[0]?.rows ?? []) {
      // A cell of several columns is one of details, which needs no name.
      for (const [at, cell] of [...row.cells].entries()) cell.dataset["label"] = cell.colSpan > 1 ? "" : (names[at] ?? "");
    }
  });
  return (
    <div class="table-scroll" tabIndex={0} role="region" aria-label={caption}>
      <table ref={table} class={`${name ?? ""} ${isCards ? "cards" : ""}`.trim()}>
        <caption class="sr-only">{caption}</caption>
        <thead>
          <tr>{head}</tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

/** A short bar that shows a share. */
export function Meter({ value, max, label }: { value: number; max: number; label: string }) {
  const share = max > 0 ? Math.min(value / max, 1) : 0;
  return (
    <span class="meter" role="img" aria-label={label} title={label}>
      <span style={{ width: `${share * 100}%` }} />
    </span>
  );
}

export function Field(props: { label: string; hint?: string; error?: string | undefined; id: string; children: ComponentChildren }) {
  return (
    <div class="field">
      <label for={props.id}>{props.label}</label>
      {props.children}
      {props.error ? (
        <p class="field-error" id={`${props.id}-hint`}>
          {props.error}
        </p>
      ) : (
        props.hint && (
          <p class="hint" id={`${props.id}-hint`}>
            {props.hint}
          </p>
        )
      )}
    </div>
  );
}
