/** Workflows: a list with progress, and one workflow with its graph; cancel, run nodes again, skip a node. */

import { useState } from "preact/hooks";
import { api, type Workflow, type WorkflowDetail, type WorkflowNode } from "../api.ts";
import { Ago, Card, Empty, Lamp, Link, Loaded, PageHead, StateBadge, Table, Took } from "../components/basics.tsx";
import { ask } from "../components/dialog.tsx";
import { Icon } from "../components/icons.tsx";
import { Permitted } from "../components/permitted.tsx";
import { attempt } from "../components/toasts.tsx";
import { WorkflowTimeline } from "../components/workflow_timeline.tsx";
import { criticalPath, drawn, type Drawn } from "../lib/graph.ts";
import { useQuery } from "../lib/query.ts";
import { now } from "../live.ts";
import { t } from "../strings.ts";

const TONES: Record<string, "good" | "bad" | "warn" | "busy"> = { running: "busy", completed: "good", succeeded: "good", failed: "bad", dead: "bad", cancelled: "warn" };

export default function WorkflowsPage({ id }: { id?: string }) {
  return id ? <One id={id} /> : <List />;
}

function List() {
  const workflows = useQuery("workflows", api.workflows, { isLive: true, every: 10 });
  const columns = t.workflowsPage.columns;
  return (
    <>
      <PageHead title={t.workflowsPage.title} />
      <div class="card">
        <Loaded query={workflows}>
          {(data) =>
            data.items.length === 0 ? (
              <Empty title={t.workflowsPage.empty} body={t.workflowsPage.emptyBody} command={t.workflowsPage.emptyCommand} />
            ) : (
              <Table
                caption={t.workflowsPage.caption}
                head={
                  <>
                    <th>{columns.name}</th>
                    <th>{columns.state}</th>
                    <th>{columns.progress}</th>
                    <th class="fill narrow-hide">{columns.nodes}</th>
                    <th>{columns.created}</th>
                  </>
                }
              >
                {data.items.map((one) => (
                  <tr key={one.id}>
                    <td>
                      <Link to={`/workflows/${one.id}`} class="strong">
                        {one.name}
                      </Link>
                    </td>
                    <td>
                      <Lamp tone={TONES[one.state] ?? "idle"}>{one.state}</Lamp>
                    </td>
                    <td>
                      <Done workflow={one} />
                    </td>
                    <td class="fill narrow-hide">{t.workflowsPage.counts(one.progress)}</td>
                    <td class="number">
                      <Ago at={one.created_at} />
                    </td>
                  </tr>
                ))}
              </Table>
            )
          }
        </Loaded>
      </div>
    </>
  );
}

function Done({ workflow }: { workflow: Workflow }) {
  const words = t.workflowsPage.done(workflow.done, workflow.node_count);
  return (
    <>
      <progress value={workflow.done} max={Math.max(workflow.node_count, 1)} aria-label={words} /> <span class="faint">{words}</span>
    </>
  );
}

function One({ id }: { id: string }) {
  const workflow = useQuery(`workflow ${id}`, (signal) => api.workflow(id, signal), { isLive: true, every: 5 });
  const then = (isDone: boolean): void => void (isDone && workflow.reload());
  return (
    <Loaded query={workflow}>
      {(data) => (
        <>
          <PageHead
            title={data.name}
            note={
              <>
                <Lamp tone={TONES[data.state] ?? "idle"}>{data.state}</Lamp> · <code>{data.id}</code> · {t.workflowsPage.columns.created.toLowerCase()} <Ago at={data.created_at} />
              </>
            }
          >
            {data.nodes.some(hasFailed) && (
              <Permitted needs="jobs.retry" onClick={() => void retry(id, null).then(then)}>
                <Icon name="retry" /> {t.workflowsPage.retryFailed}
              </Permitted>
            )}
            {data.state === "running" && (
              <Permitted needs="jobs.cancel" class="danger" onClick={() => void cancel(data).then(then)}>
                <Icon name="stop" /> {t.workflowsPage.cancel}
              </Permitted>
            )}
          </PageHead>
          <Drawing workflow={data} />
          <Card title={t.workflowsPage.nodes} isFlush>
            <Nodes id={id} nodes={data.nodes} onChange={workflow.reload} />
          </Card>
        </>
      )}
    </Loaded>
  );
}

/** The workflow as a graph, or over time. */
function Drawing({ workflow }: { workflow: WorkflowDetail }) {
  const [isTimeline, setTimeline] = useState(false);
  const { nodes } = workflow;
  const isLarge = nodes.length > MOST_DRAWN;
  const drawing = isLarge ? null : drawn(nodes);
  const ends = nodes.map((node) => (node.finished_at ? Date.parse(node.finished_at) : node.started_at && node.state === "running" ? now.peek() : null));
  const path = drawing ? criticalPath(drawing.edges, ends) : [];
  const choice = (label: string, value: boolean) => (
    <button type="button" aria-pressed={isTimeline === value} onClick={() => setTimeline(value)}>
      {label}
    </button>
  );
  return (
    <Card
      title={isTimeline ? t.workflowsPage.timeline : t.workflowsPage.graph}
      hint={t.workflowsPage.ended(workflow.done, workflow.node_count)}
      actions={
        <div class="segments" role="group" aria-label={t.workflowsPage.view}>
          {choice(t.workflowsPage.graph, false)}
          {choice(t.workflowsPage.timeline, true)}
        </div>
      }
    >
      {drawing === null ? <p class="faint">{t.workflowsPage.tooMany(nodes.length)}</p> : isTimeline ? <WorkflowTimeline nodes={nodes} edges={drawing.edges} path={path} /> : <Graph nodes={nodes} drawing={drawing} path={path} />}
      {path.length > 1 && (
        <p class="hint">
          {t.workflowsPage.critical} {path.map((at) => (nodes[at] as WorkflowNode).name).join(" → ")}
        </p>
      )}
    </Card>
  );
}

const WIDTH = 168;
const HEIGHT = 44;
const GAP = { x: 48, y: 16 };
const MOST_DRAWN = 300;

/** The graph from left to right: each node stands behind all nodes that it waits for. */
function Graph({ nodes, drawing, path }: { nodes: WorkflowNode[]; drawing: Drawn; path: readonly number[] }) {
  const { places, edges, columns, rows } = drawing;
  const isCritical = (from: number, to: number): boolean => path.some((at, place) => at === from && path[place + 1] === to);
  const x = (column: number): number => column * (WIDTH + GAP.x) + 4;
  const y = (row: number): number => row * (HEIGHT + GAP.y) + 4;
  const size = { width: columns * (WIDTH + GAP.x) - GAP.x + 8, height: rows * (HEIGHT + GAP.y) + 8 };
  return (
    <div class="graph" tabIndex={0} role="region" aria-label={t.workflowsPage.graph}>
      <svg width={size.width} height={size.height} role="img" aria-label={t.workflowsPage.graphLabel(nodes.length, edges.length)}>
        {edges.map(([from, to]) => {
          const start = places[from] as { column: number; row: number };
          const end = places[to] as { column: number; row: number };
          const [left, right] = [x(start.column) + WIDTH, x(end.column)];
          const [top, bottom] = [y(start.row) + HEIGHT / 2, y(end.row) + HEIGHT / 2];
          // An edge that passes other columns goes below their nodes.
          const isLong = end.column - start.column > 1;
          const low = Math.max(top, bottom) + (isLong ? HEIGHT + GAP.y : 0);
          const [first, last] = isLong ? [left + GAP.x, right - GAP.x] : [(left + right) / 2, (left + right) / 2];
          return <path key={`${from} ${to}`} class={isCritical(from, to) ? "edge critical" : "edge"} d={`M${left} ${top}C${first} ${isLong ? low : top} ${last} ${isLong ? low : bottom} ${right} ${bottom}`} />;
        })}
        {nodes.map((node, index) => {
          const place = places[index] as { column: number; row: number };
          return (
            <g key={node.name} class={`node ${path.length > 1 && path.includes(index) ? "critical " : ""}${node.is_skipped ? "skipped" : (node.state ?? "")}`} transform={`translate(${x(place.column)} ${y(place.row)})`}>
              <title>{`${node.name}: ${stateOf(node)}`}</title>
              <rect width={WIDTH} height={HEIGHT} rx={8} />
              <text x={12} y={18}>{cut(node.name, 20)}</text>
              <text x={12} y={34} class="faint">{cut(stateOf(node), 26)}</text>
            </g>
          );
        })}
      </svg>
    </div>
  );
}

function cut(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

function stateOf(node: WorkflowNode): string {
  if (node.is_skipped) return t.workflowsPage.skipped;
  return node.state === null ? t.workflowsPage.pruned : [t.states[node.state], t.workflowsPage.reason(node.reason)].filter(Boolean).join(": ");
}

/** Whether a node ended without success. */
function hasFailed(node: WorkflowNode): boolean {
  return !node.is_skipped && (node.state === "dead" || node.state === "cancelled") && node.reason !== "not_needed" && node.reason !== "skipped";
}

/** Whether the server lets a node run again: it has ended, and so have the nodes before it as they should. */
function mayRunAgain(node: WorkflowNode): boolean {
  return !node.is_pruned && node.reason !== "dependency_failed" && node.reason !== "not_needed" && (node.is_skipped || node.state === "completed" || hasFailed(node));
}

/** Why a node does not run yet: the nodes that it waits for, or when it is due. */
function Waiting({ node, nodes }: { node: WorkflowNode; nodes: readonly WorkflowNode[] }) {
  if (node.state === "blocked") {
    const open = new Set(nodes.filter((one) => one.finished_at === null && !one.is_skipped).map((one) => one.name));
    const names = node.after.map(afterName).filter((name) => open.has(name));
    return names.length ? <div class="hint">{t.workflowsPage.waitsFor(names)}</div> : null;
  }
  if (node.state !== "scheduled" && node.state !== "retrying") return null;
  return (
    <div class="hint">
      {t.workflowsPage.due} <Ago at={node.run_at} />
    </div>
  );
}

function afterName(one: WorkflowNode["after"][number]): string {
  return typeof one === "string" ? one : (one.node ?? one.job ?? "");
}

function Nodes({ id, nodes, onChange }: { id: string; nodes: WorkflowNode[]; onChange: () => void }) {
  const columns = t.workflowsPage.nodeColumns;
  const then = (isDone: boolean): void => void (isDone && onChange());
  return (
    <Table
      caption={t.workflowsPage.nodes}
      isCards
      head={
        <>
          <th>{columns.name}</th>
          <th>{columns.state}</th>
          <th class="narrow-hide">{columns.after}</th>
          <th class="right narrow-hide">{columns.attempts}</th>
          <th class="right narrow-hide">{columns.took}</th>
          <th>
            <span class="sr-only">{t.actions}</span>
          </th>
        </>
      }
    >
      {nodes.slice(0, 500).map((node) => (
        <tr key={node.name}>
          <td>
            {node.is_pruned ? <span class="strong">{node.name}</span> : <Link to={`/jobs/${node.job_id}`} class="strong">{node.name}</Link>}
            <div class="hint">{node.type}</div>
          </td>
          <td>
            {node.state && !node.is_skipped ? <StateBadge state={node.state} /> : stateOf(node)}
            {node.reason && !node.is_skipped && <div class="hint">{t.workflowsPage.reason(node.reason)}</div>}
            <Waiting node={node} nodes={nodes} />
          </td>
          <td class="narrow-hide">{node.after.map(afterName).join(", ")}</td>
          <td class="right narrow-hide">{node.attempts}</td>
          <td class="right narrow-hide">{node.started_at && node.finished_at ? <Took from={node.started_at} to={node.finished_at} /> : t.none}</td>
          <td class="actions">
            {mayRunAgain(node) && (
              <Permitted needs="jobs.retry" class="small" onClick={() => void retry(id, node.name).then(then)}>
                {t.workflowsPage.retryFrom}
              </Permitted>
            )}{" "}
            {(node.state === "blocked" || (node.state === "dead" && !node.is_skipped)) && (
              <Permitted needs="jobs.retry" class="small" onClick={() => void skip(id, node.name).then(then)}>
                {t.workflowsPage.skip}
              </Permitted>
            )}
          </td>
        </tr>
      ))}
    </Table>
  );
}

async function cancel(workflow: Workflow): Promise<boolean> {
  const question = { title: t.workflowsPage.cancelTitle(workflow.name), body: t.workflowsPage.cancelBody, action: t.workflowsPage.cancel, isDangerous: true };
  if ((await ask(question)) === null) return false;
  return attempt(() => api.cancelWorkflow(workflow.id), () => t.workflowsPage.cancelledDone);
}

async function retry(id: string, node: string | null): Promise<boolean> {
  const title = node === null ? t.workflowsPage.retryFailedTitle : t.workflowsPage.retryTitle(node);
  if ((await ask({ title, body: t.workflowsPage.retryBody, action: t.actions_.retry })) === null) return false;
  return attempt(() => api.retryWorkflow(id, node), () => t.workflowsPage.retriedDone);
}

async function skip(id: string, node: string): Promise<boolean> {
  if ((await ask({ title: t.workflowsPage.skipTitle(node), body: t.workflowsPage.skipBody, action: t.workflowsPage.skip })) === null) return false;
  return attempt(() => api.skipNode(id, node), () => t.workflowsPage.skippedDone(node));
}
