/** The same request for the shell, the command line and Python: what "copy as" offers. */

import { type Filter, queryOf } from "./filter.ts";
import { RawJson, writeJson } from "./json.ts";

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

/** Writes a change of a waiting job, or a retry with changes. */
export function editSnippets(origin: string, id: string, isRetry: boolean, changes: Record<string, unknown>, hasToken: boolean): Snippets {
  const path = isRetry ? `/v1/jobs/${id}/retry` : `/v1/jobs/${id}`;
  const flags = Object.entries(changes).map(([name, value]) => {
    if (name === "delay") return `--in ${shellQuoted(String(value))}`;
    if (Array.isArray(value)) return value.length ? value.map((tag) => `--tag ${shellQuoted(String(tag))}`).join(" ") : "--tag ''";
    return `--${name.replace("_", "-")} ${shellQuoted(value instanceof RawJson ? value.text : String(value))}`;
  });
  const body = writeJson(changes);
  const method = isRetry ? "post" : "patch";
  return {
    curl: curl(origin, isRetry ? "POST" : "PATCH", path, hasToken, body),
    cli: [`rota jobs ${isRetry ? "retry" : "update"} ${id}`, ...flags].join(" "),
    python: `import httpx\n\nhttpx.${method}("${origin}${path}", content=${JSON.stringify(body)}, headers={"Content-Type": "application/json"})`,
  };
}
