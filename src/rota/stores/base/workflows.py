"""Workflows: reading them, their rows, and follow-ups of jobs whose dependencies failed. Each store writes its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from rota.core.graph import (
    NewWorkflow,
    Node,
    NodeCount,
    Rerun,
    StoredWorkflow,
    WorkflowId,
    WorkflowPolicy,
    after_failures,
    parents_of_text,
    parents_text,
)
from rota.core.ids import JobId, compose
from rota.core.lifecycle import State
from rota.core.settlement import Reason
from rota.core.submission import NewJob, Template
from rota.core.time import from_micros
from rota.core.trace import TRACEPARENT
from rota.stores.base.session import StoreSession
from rota.stores.rows import Row, moment


async def workflows(
    session: StoreSession, ids: Sequence[WorkflowId] | None, before: int, limit: int
) -> list[StoredWorkflow]:
    """Return workflows by id, or those before an id, newest first."""
    if ids is not None:
        rows = await session.select_by("workflows_by_id", ids)
    else:
        rows = await session.select("workflows_before", before=before, limit=limit)
    return workflows_of(rows, await session.select_by("workflow_counts", [row[0] for row in rows]))


async def nodes(session: StoreSession, workflow_id: WorkflowId) -> list[Node]:
    return [node_of(row) for row in await session.select("workflow_nodes", id=workflow_id)]


async def nodes_of_jobs(session: StoreSession, ids: Sequence[JobId]) -> list[Node]:
    return [node_of(row) for row in await session.select_by("workflow_nodes_of_jobs", sorted(ids))]


def node_rows(workflow: NewWorkflow) -> list[Row]:
    """Write the nodes of a new workflow: workflow, position, job, name, parents, runs_after_failure."""
    kept = after_failures([node.parents for node in workflow.nodes])
    return [
        (workflow.id, position, node.job.id, node.name, parents_text(node.parents), position in kept)
        for position, node in enumerate(workflow.nodes)
    ]


def rerun_rows(rerun: Rerun) -> list[Row]:
    """Write the nodes of a re-run, as `node_rows` does."""
    return [
        (rerun.workflow_id, one.position, job.id, one.name, parents_text(one.parents), one.runs_after_failure)
        for one, job in zip(rerun.nodes, rerun.jobs, strict=True)
    ]


def node_of(row: Row) -> Node:
    """Read a node, in the order of workflows.sql."""
    (
        workflow_id, position, name, job_id, parents, runs_after_failure, replaced_by, is_skipped, pruned_state,
        pruned_reason, state, reason, type_, queue, attempts, created_at, started_at, finished_at, run_at,
    ) = row  # fmt: skip
    shown = pruned_state or state
    why = pruned_reason if pruned_state else reason
    return Node(
        WorkflowId(workflow_id),
        position,
        name,
        JobId(job_id),
        parents_of_text(parents),
        bool(runs_after_failure),
        None if replaced_by is None else JobId(replaced_by),
        bool(is_skipped),
        None if shown is None else State(shown),
        None if why is None else Reason(why),
        pruned_state is not None,
        type_,
        queue,
        attempts or 0,
        moment(created_at),
        moment(started_at),
        moment(finished_at),
        moment(run_at),
    )


def workflows_of(rows: Iterable[Row], counts: Iterable[Row]) -> list[StoredWorkflow]:
    """Read workflows (id, name, policy, nodes, created_at) and their counts (id, state, reason, skipped, count)."""
    by_workflow: dict[int, list[NodeCount]] = {}
    for workflow_id, state, reason, is_skipped, number in counts:
        count = NodeCount(
            None if state is None else State(state),
            None if reason is None else Reason(reason),
            bool(is_skipped),
            number,
        )
        by_workflow.setdefault(workflow_id, []).append(count)
    return [
        StoredWorkflow(
            WorkflowId(number),
            name,
            WorkflowPolicy(policy),
            nodes,
            from_micros(created_at),
            tuple(by_workflow.get(number, ())),
        )
        for number, name, policy, nodes, created_at in rows
    ]


def failure_follow_ups(rows: Sequence[Row], now: int) -> list[NewJob]:
    """Make the `on_failure` jobs of jobs that were cancelled because a dependency failed: id, template and meta."""
    return [_follow_up(job_id, template, meta, now) for job_id, template, meta in rows]


def _follow_up(job_id: JobId, template: str, meta: str | None, now: int) -> NewJob:
    trace: dict[str, Any] = json.loads(meta) if meta else {}
    # Its own id is as good as any: if it is taken, the store uses the next one.
    number = JobId(compose(now // 1000, job_id))
    return Template.from_text(template).make(
        number, from_micros(now), parent_id=job_id, traceparent=trace.get(TRACEPARENT)
    )
