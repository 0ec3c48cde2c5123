/** The columns of the table of jobs: which there are, and which are shown. */

/** In the order in which they are shown. Type is always there: it leads to the job. */
export const COLUMNS = [
  "state", "type", "id", "queue", "priority", "attempts", "tags", "worker", "schedule", "created", "due", "started",
  "ended", "when", "took", "error",
] as const; // prettier-ignore
export type Column = (typeof COLUMNS)[number];
export const ALWAYS: Column = "type";
export const USUAL: readonly Column[] = ["state", "type", "id", "queue", "attempts", "when", "took", "error"];

/**
 * Reads columns as an address or the browser holds them, `queue,took`: those that are known, in their own order, with
 * the type. Null without a known name, so that a wrong address shows the usual ones.
 */
export function columnsOf(text: string | null): readonly Column[] | null {
  const names = new Set((text ?? "").split(","));
  const known = COLUMNS.filter((name) => names.has(name));
  return known.length ? COLUMNS.filter((name) => name === ALWAYS || names.has(name)) : null;
}

/** Writes columns for an address; null for the usual ones, which need no words. */
export function columnsText(columns: readonly Column[]): string | null {
  const text = COLUMNS.filter((name) => columns.includes(name)).join(",");
  return text === USUAL.join(",") ? null : text;
}
