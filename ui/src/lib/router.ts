/** Client-side routes: the URL holds the page and its whole filter, so that any view can be shared as a link. */

import { computed, signal } from "@preact/signals";

const root = document.querySelector<HTMLMetaElement>('meta[name="rota-root"]')?.content ?? "./";
/** Where the dashboard is, with a slash at its end; a proxy may have put a prefix before it. */
export const uiBase = new URL(root, location.href);
/** Where the API is. */
export const apiBase = new URL("..", uiBase);

interface Place {
  path: string;
  query: string;
}

function here(): Place {
  const path = location.pathname.startsWith(uiBase.pathname) ? location.pathname.slice(uiBase.pathname.length) : "";
  return { path: decodePath(path), query: location.search };
}

function decodePath(path: string): string {
  return `/${path.replace(/\/+$/, "")}`;
}

export const place = signal<Place>(here());
/** The path below `/ui`, such as `/jobs/0aj…`. */
export const path = computed(() => place.value.path);
export const parameters = computed(() => new URLSearchParams(place.value.query));
/** The parts of the path, decoded. */
export const segments = computed(() => path.value.split("/").filter(Boolean).map(decodeURIComponent));

/** Gives the URL of a page. */
export function href(to: string): string {
  return uiBase.pathname + to.replace(/^\//, "");
}

/** Goes to a page; `replace` leaves no entry in the history. */
export function navigate(to: string, options: { replace?: boolean } = {}): void {
  const target = href(to);
  if (target === location.pathname + location.search) return;
  history[options.replace ? "replaceState" : "pushState"](null, "", target);
  const before = place.value.path;
  place.value = here();
  if (before !== place.value.path) window.scrollTo(0, 0);
}

/** Changes parameters of the current page; empty values are removed. */
export function setParameters(changes: Record<string, string | null>, options: { replace?: boolean } = {}): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString().replaceAll("%2C", ",").replaceAll("%3A", ":");
  navigate(`${place.value.path}${text ? `?${text}` : ""}`, options);
}

/** Begins to follow links and the browser's history. */
export function startRouter(): void {
  window.addEventListener("popstate", () => {
    place.value = here();
  });
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const link = (event.target as Element | null)?.closest?.("a[href]");
    if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return;
    const url = new URL(link.href);
    if (url.origin !== location.origin || !`${url.pathname}/`.startsWith(uiBase.pathname)) return;
    if (url.hash && url.pathname === location.pathname) return;
    event.preventDefault();
    navigate(url.pathname.slice(uiBase.pathname.length) + url.search);
  });
}
