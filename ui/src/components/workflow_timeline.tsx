/** The nodes of a workflow over time: when each was ready, ran and ended. The table of nodes says the same. */

import type { WorkflowNode } from "../api.ts";
import { stretches } from "../lib/graph.ts";
import { zone } from "../lib/preferences.ts";
import { clock, duration } from "../lib/time.ts";
import { now } from "../live.ts";
import { t } from "../strings.ts";

const ROW = 22;
/** The share of the width for the names, in percent. */
const NAMES = 22;
const KINDS: Record<string, string> = { completed: "succeed", dead: "fail", running: "run" };

export function WorkflowTimeline({ nodes, edges, path }: { nodes: readonly WorkflowNode[]; edges: readonly (readonly [number, number])[]; path: readonly number[] }) {
  const words = t.workflowsPage;
  const { from, to, rows } = stretches(nodes, edges, now.value);
  if (rows.every((row) => row.ran === null)) return <p class="faint">{words.notStarted}</p>;
  const span = Math.max(to - from, 20);
  const x = (at: number): number => NAMES + ((at - from) / span) * (100 - NAMES);
  const wide = (bar: readonly [number, number]): string => `${Math.max(x(bar[1]) - x(bar[0]), 0.4)}%`;
  const height = rows.length * ROW + 20;
  return (
    <svg class="gantt workflow-timeline" height={height} width="100%" role="img" aria-label={words.timelineLabel(rows.length)}>
      {[0, 50, 100].map((share) => (
        <g key={share}>
          <line class="axis" x1={`${x(from + (span * share) / 100)}%`} x2={`${x(from + (span * share) / 100)}%`} y1={0} y2={height - 18} />
          <text x={`${x(from + (span * share) / 100)}%`} y={height - 5} text-anchor={share === 0 ? "start" : share === 100 ? "end" : "middle"}>
            {share === 0 ? clock(from, zone.value) : `+${duration((span * share) / 100)}`}
          </text>
        </g>
      ))}
      {nodes.map((node, index) => {
        const row = rows[index];
        const y = index * ROW;
        return (
          <g key={node.name}>
            <title>{[node.name, node.state === null ? words.pruned : t.states[node.state], row?.waited && words.waitedFor(duration(row.waited[1] - row.waited[0])), row?.ran && words.ranFor(duration(row.ran[1] - row.ran[0]))].filter(Boolean).join(", ")}</title>
            <svg x={0} y={y} width={`${NAMES - 1}%`} height={ROW}>
              <text class={path.length > 1 && path.includes(index) ? "name strong" : "name"} x={0} y={15}>{node.name}</text>
            </svg>
            {row?.waited && <rect class="wait" x={`${x(row.waited[0])}%`} width={wide(row.waited)} y={y + 9} height={4} rx={2} />}
            {row?.ran && <rect class={`bar ${KINDS[node.state ?? ""] ?? "other"}`} x={`${Math.min(x(row.ran[0]), 99.4)}%`} width={wide(row.ran)} y={y + 4} height={13} rx={2} />}
          </g>
        );
      })}
    </svg>
  );
}
