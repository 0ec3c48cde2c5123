/** The same request for the shell, the command line and Python: what "copy as" offers. */

import { type Filter, queryOf } from "./filter.ts";

export interface Snippets {
  curl: string;
  cli: string | null;
  python: string | null;
}

/** Quotes a word for a POSIX shell. */
export function shellQuoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Writes a request to the API. */
export function curl(origin: string, method: string, path: string, hasToken: boolean, body?: string): string {
  const words = ["curl", "-sS"];
  if (method !== "GET") words.push("-X", method);
  if (hasToken) words.push("-H", '"Authorization: Bearer $ROTA_TOKEN"');
  if (body !== undefined) words.push("-H", "'Content-Type: application/json'", "-d", shellQuoted(body));
  words.push(shellQuoted(`${origin}${path}`));
  return words.join(" ");
}

/** Writes a list of jobs. */
export function listSnippets(origin: string, filter: Filter, hasToken: boolean): Snippets {
  const query = queryOf(filter).toString();
  const flags = (["status", "type", "queue", "tag"] as const)
    .filter((name) => filter[name])
    .map((name) => `--${name} ${shellQuoted(filter[name] ?? "")}`);
  const isWhole = Object.keys(filter).every((name) => ["status", "type", "queue", "tag", "q"].includes(name));
  const search = filter.q ? [shellQuoted(filter.q)] : [];
  return {
    curl: curl(origin, "GET", `/v1/jobs${query ? `?${query}` : ""}`, hasToken),
    cli: isWhole ? ["rota jobs list", ...search, ...flags].join(" ") : null,
    python: null,
  };
}

/** Writes an action on a job; `get` shows it. */
export function jobSnippets(origin: string, id: string, action: string, hasToken: boolean): Snippets {
  const method = action === "get" ? "GET" : "POST";
  const path = action === "get" ? `/v1/jobs/${id}` : `/v1/jobs/${id}/${action}`;
  const call: Record<string, string> = { get: "job", cancel: "cancel()", retry: "retry()" };
  return {
    curl: curl(origin, method, path, hasToken),
    cli: `rota jobs ${action} ${id}`,
    python: call[action] === undefined ? null : `from rota import Rota\n\nRota("${origin}").get("${id}").${call[action]}`,
  };
}
