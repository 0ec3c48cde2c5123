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
  /** Words that cannot be searched for. */
  unknown: string[];
}

/** Reads the words of the search box: `status:dead type:mail created:<2h`, an id, or a bare word, which is a type. */
export function readSearch(text: string): Search {
  const search: Search = { filter: {}, unknown: [] };
  for (const word of text.trim().split(/\s+/).filter(Boolean)) {
    const colon = word.indexOf(":");
    const name = colon < 0 ? "" : word.slice(0, colon).toLowerCase();
    const value = word.slice(colon + 1).replace(/^"|"$/g, "");
    if (colon < 0) {
      if (JOB_ID.test(word.toLowerCase())) search.job = word.toLowerCase();
      else search.filter.type = word;
    } else if (value === "") search.unknown.push(word);
    else if (name === "created") search.filter.q = `created:${value}`;
    else if (WORDS[name] !== undefined) search.filter[WORDS[name]] = value;
    else search.unknown.push(word);
  }
  return search;
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
