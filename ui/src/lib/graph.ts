/** The places of a graph's nodes: in columns, each node behind all nodes that it waits for. */

export interface Drawn {
  places: { column: number; row: number }[];
  /** From and to, as indexes of nodes. */
  edges: [number, number][];
  columns: number;
  rows: number;
}

type After = string | { node?: string | null };

/** Places nodes; a workflow has no cycles, and a name that no node has is left out. */
export function drawn(nodes: readonly { name: string; after: readonly After[] }[]): Drawn {
  const index = new Map(nodes.map((node, at) => [node.name, at]));
  const parents = nodes.map((node) =>
    node.after.map((one) => index.get(typeof one === "string" ? one : (one.node ?? ""))).filter((at): at is number => at !== undefined),
  );
  const columns = nodes.map(() => -1);
  const columnOf = (at: number): number => {
    // Without recursion: a chain may be longer than the stack.
    const open = [at];
    while (open.length) {
      const current = open[open.length - 1] as number;
      const unknown = (parents[current] ?? []).filter((one) => columns[one] === -1);
      if (columns[current] !== -1) open.pop();
      else if (unknown.length) open.push(...unknown);
      else {
        columns[current] = Math.max(-1, ...(parents[current] ?? []).map((one) => columns[one] ?? 0)) + 1;
        open.pop();
      }
    }
    return columns[at] ?? 0;
  };
  const used: number[] = [];
  const places = nodes.map((_, at) => {
    const column = columnOf(at);
    const row = used[column] ?? 0;
    used[column] = row + 1;
    return { column, row };
  });
  const edges = parents.flatMap((all, to) => all.map((from): [number, number] => [from, to]));
  return { places, edges, columns: used.length, rows: Math.max(0, ...used) };
}

/**
 * The chain of nodes that decided when the workflow was as far as it is: from the node that ended last back to the one
 * before it that ended last, and so on. `ends` has the end of each node in milliseconds, or null.
 */
export function criticalPath(edges: readonly (readonly [number, number])[], ends: readonly (number | null)[]): number[] {
  const parents = new Map<number, number[]>();
  for (const [from, to] of edges) parents.set(to, [...(parents.get(to) ?? []), from]);
  const latest = (nodes: readonly number[]): number | undefined =>
    nodes.filter((at) => ends[at] !== null && ends[at] !== undefined).sort((one, other) => (ends[other] as number) - (ends[one] as number))[0];
  const path: number[] = [];
  for (let at = latest(ends.map((_, index) => index)); at !== undefined; at = latest(parents.get(at) ?? [])) path.unshift(at);
  return path;
}

type Stretch = readonly [number, number];

interface Timed {
  created_at: string | null;
  run_at: string | null;
  started_at: string | null;
  finished_at: string | null;
  state: string | null;
}

/**
 * When each node could have started and did not, and when it ran, in milliseconds: null where it did not. A node can start
 * when it is due and the nodes before it have ended.
 */
export function stretches(nodes: readonly Timed[], edges: readonly (readonly [number, number])[], now: number): { from: number; to: number; rows: { waited: Stretch | null; ran: Stretch | null }[] } {
  const at = (text: string | null): number | null => (text === null ? null : Date.parse(text));
  const parents = new Map<number, number[]>();
  for (const [from, to] of edges) parents.set(to, [...(parents.get(to) ?? []), from]);
  const rows = nodes.map((node, index) => {
    const started = at(node.started_at);
    const isWaiting = node.state === "pending" || node.state === "queued";
    const ends = (parents.get(index) ?? []).map((one) => at(nodes[one]?.finished_at ?? null));
    const ready = Math.max(at(node.created_at) ?? now, at(node.run_at) ?? 0, ...ends.map((end) => end ?? 0));
    // A node that ran again was due later than its first attempt started.
    const until = started ?? (isWaiting ? now : null);
    const waited: Stretch | null = until !== null && ready < until ? [ready, until] : null;
    const ran: Stretch | null = started === null ? null : [started, Math.max(at(node.finished_at) ?? (node.state === "running" ? now : started), started)];
    return { waited, ran };
  });
  const known = rows.flatMap((row) => [...(row.waited ?? []), ...(row.ran ?? [])]);
  return { from: Math.min(...known, now), to: known.length ? Math.max(...known) : now, rows };
}
