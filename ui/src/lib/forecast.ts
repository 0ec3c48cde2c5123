/** The load of a forecast. The server lists only the first fire times of a schedule that fires often; the rest is estimated. */

export interface FireTime {
  at: string;
  name: string;
}

/** As many fire times the server lists in all; beyond them it lists none of any schedule. */
const MOST_LISTED = 5_000;

/** Where the list of each schedule that is cut ends, and about how many fire times there are in each slice of the span. */
export function estimated(items: readonly FireTime[], isComplete: boolean, from: number, span: number, slices: number): { cuts: Map<string, number>; load: number[] } {
  const load = Array.from({ length: slices }, () => 0);
  const found = new Map<string, { count: number; last: number }>();
  for (const item of items) {
    const at = new Date(item.at).getTime();
    const slice = Math.min(Math.max(Math.floor(((at - from) / span) * slices), 0), slices - 1);
    load[slice] = (load[slice] ?? 0) + 1;
    found.set(item.name, { count: (found.get(item.name)?.count ?? 0) + 1, last: at });
  }
  const cuts = new Map<string, number>();
  if (isComplete) return { cuts, load };
  const most = Math.max(...[...found.values()].map((one) => one.count), 0);
  const end = Math.max(...[...found.values()].map((one) => one.last), from);
  for (const [name, { count, last }] of found) {
    if (count < most && items.length < MOST_LISTED) continue;
    const cut = count < most ? end : last;
    cuts.set(name, cut);
    const rate = count / Math.max(cut - from, 1);
    for (let slice = 0; slice < slices; slice += 1) {
      const begin = from + (slice / slices) * span;
      load[slice] = (load[slice] ?? 0) + rate * Math.max(begin + span / slices - Math.max(begin, cut), 0);
    }
  }
  return { cuts, load };
}

export interface Run {
  at: number;
  seconds: number;
}

/** How many runs there are at once at most, in each slice of a span. */
export function busyAt(runs: readonly Run[], from: number, span: number, slices: number): number[] {
  const most = Array.from({ length: slices }, () => 0);
  const changes = runs.flatMap((run) => [
    { at: run.at, step: 1 },
    { at: run.at + Math.max(run.seconds, 0.001) * 1_000, step: -1 },
  ]);
  // Whoever ends at a moment makes room for whoever begins then.
  changes.sort((one, other) => one.at - other.at || one.step - other.step);
  let [now, slice] = [0, -1];
  const count = (index: number): void => {
    if (index >= 0 && index < slices) most[index] = Math.max(most[index] ?? 0, now);
  };
  for (const change of changes) {
    const reached = Math.min(Math.floor(((change.at - from) / span) * slices), slices);
    while (slice < reached) {
      slice += 1;
      count(slice);
    }
    now += change.step;
    count(reached);
  }
  return most;
}
