/** The filter of the list of jobs: what the search box takes, what the URL holds and what the API is asked. */

/** Query parameters of `GET /v1/jobs` that a filter sets, in the order in which they are shown. */
export const FILTERS = [
  "status", "type", "queue", "tag", "worker_id", "schedule_id", "fingerprint", "since", "until", "q",
] as const; // prettier-ignore
export type FilterName = (typeof FILTERS)[number];
export type Filter = Partial<Record<FilterName, string>>;

const WORDS: Record<string, FilterName> = {
  status: "status", state: "status", type: "type", queue: "queue", tag: "tag", worker: "worker_id",
  worker_id: "worker_id", schedule: "schedule_id", schedule_id: "schedule_id", fingerprint: "fingerprint",
  since: "since", until: "until",
}; // prettier-ignore
const JOB_ID = /^[0-7][0-9a-z]{12}$/;

/** What the search box means: a filter, or one job. */
export interface Search {
  job?: string;
  filter: Filter;
}

/** Terms with one plain value, for which the URL has a parameter of its own. All others need the query language. */
const PLAIN = /^[a-z_]+:[^\s"*,<>-][^\s"*,<>]*$/i;

/**
 * Reads the search box: an id, terms that the URL has parameters for (`status:dead type:mail`), or a search in the query
 * language of the API, which is sent as it is and whose mistakes the API names.
 */
export function readSearch(text: string): Search {
  const trimmed = text.trim();
  if (JOB_ID.test(trimmed.toLowerCase())) return { job: trimmed.toLowerCase(), filter: {} };
  const words = trimmed.split(/\s+/).filter(Boolean);
  if (!words.every(isPlain)) return { filter: { q: trimmed } };
  const filter: Filter = {};
  for (const word of words) {
    const name = WORDS[word.slice(0, word.indexOf(":")).toLowerCase()];
    if (name !== undefined) filter[name] = word.slice(word.indexOf(":") + 1);
  }
  return { filter };
}

/** The last word of a search while it is typed: what stands before it, its field if it has one, and its value. */
export function lastWord(text: string): { before: string; field: string | null; value: string } {
  const start = text.lastIndexOf(" ") + 1;
  const colon = text.indexOf(":", start);
  const sign = text[start] === "-" ? 1 : 0;
  if (colon < 0) return { before: text.slice(0, start + sign), field: null, value: text.slice(start + sign) };
  const comma = Math.max(text.lastIndexOf(","), colon);
  return { before: text.slice(0, comma + 1), field: text.slice(start + sign, colon).toLowerCase(), value: text.slice(comma + 1) };
}

/** Fields of the query language, and those whose values the API suggests. */
export const SEARCH_FIELDS = [
  "status", "type", "queue", "tag", "worker", "error", "attempts", "priority", "created", "finished", "late", "schedule", "fingerprint", "id",
] as const; // prettier-ignore
export const SUGGESTED: readonly string[] = ["status", "type", "queue", "tag", "worker", "schedule", "error", "fingerprint"];

function isPlain(word: string): boolean {
  const name = word.slice(0, word.indexOf(":")).toLowerCase();
  return PLAIN.test(word) && WORDS[name] !== undefined && name !== "schedule";
}

/** Writes a filter as a search in the query language, for an operation on all its jobs; null if that cannot be said. */
export function searchOf(filter: Filter): string | null {
  const terms: string[] = [];
  for (const name of FILTERS) {
    const value = filter[name];
    if (!value) continue;
    if (name === "q") terms.push(value);
    else if (name === "since") terms.push(`created:>=${value}`);
    else if (name === "until") terms.push(`created:<${value}`);
    else terms.push(`${SEARCHED[name] ?? name}:${name === "status" ? value : quoted(value)}`);
  }
  return terms.length ? terms.join(" ") : null;
}

const SEARCHED: Partial<Record<FilterName, string>> = { worker_id: "worker", schedule_id: "schedule" };

function quoted(value: string): string {
  const values = value.startsWith('"') ? [value] : value.split(",");
  return values.map((one) => (one.startsWith('"') ? one : `"${one.replace(/\\/g, "\\\\").replace(/"/g, '\\"')}"`)).join(",");
}

/** Takes the filter out of the parameters of a URL. */
export function filterOf(parameters: URLSearchParams): Filter {
  const filter: Filter = {};
  for (const name of FILTERS) {
    const value = parameters.get(name);
    if (value) filter[name] = value;
  }
  return filter;
}

/** Writes a filter as query parameters, always in the same order. */
export function queryOf(filter: Filter): URLSearchParams {
  const parameters = new URLSearchParams();
  for (const name of FILTERS) {
    const value = filter[name];
    if (value) parameters.set(name, value);
  }
  return parameters;
}

/** Says whether a text is the id of a job. */
export function isJobId(text: string): boolean {
  return JOB_ID.test(text);
}

/** Writes a filter and the columns of the address as the query of a view. */
export function viewOf(filter: Filter, columns: string | null): string {
  const query = queryOf(filter);
  if (columns) query.set("columns", columns);
  return query.toString().replaceAll("%2C", ",");
}

/** Says whether a page shows a view: its filter, and its columns if it has any. */
export function isViewOf(view: string, filter: Filter, columns: string | null): boolean {
  const query = new URLSearchParams(view);
  const shown = query.get("columns") ?? columns;
  return viewOf(filterOf(query), shown) === viewOf(filter, columns);
}
