"""Workflow verbs over a store: submit a graph, read it, cancel it, run nodes again, skip a node.

A graph is stored in one transaction, and so is each re-run. A re-run is stored only if each node still has the job that
was read. So if two operators retry a workflow at the same time, one gets the error that it has changed.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from rota.core.bulk import check_all
from rota.core.decision import cancel, skip
from rota.core.errors import IllegalTransition, InvalidRequest, JobNotFound, KeyReused, StoreUnavailable
from rota.core.graph import (
    NewWorkflow,
    Node,
    NodeParent,
    Rerun,
    StoredWorkflow,
    WorkflowId,
    below,
    planned,
)
from rota.core.ids import JobId, to_text
from rota.core.job import Job
from rota.core.ledger import LedgerEntry
from rota.core.lifecycle import FINISHED, State
from rota.core.submission import Delivery, Dependency, Need, NewJob, unknown_parent
from rota.engine.deps import EngineDeps
from rota.engine.jobs import Jobs, topics_of
from rota.engine.queues import Backlogs
from rota.ports.client import Actor, Deed, NodeResult, WorkflowReceipt
from rota.ports.store import Inserted, Receipt
from rota.telemetry.events import Acted, JobsSubmitted, WorkflowChanged

#: How often a change is repeated when the workflow changes meanwhile, and how often other ids are tried.
MOST_TRIES: Final = 10
#: How many results, of up to a megabyte each, are read at once for a page.
_RESULTS_AT_ONCE: Final = 20
_KEY_REUSED: Final = (
    "this idempotency key was used before with another request; use a new one, or send the same request"
)


class Workflows:
    """Submit, read, cancel, retry, skip."""

    def __init__(self, deps: EngineDeps, jobs: Jobs, backlogs: Backlogs) -> None:
        self._deps = deps
        self._jobs = jobs
        self._backlogs = backlogs

    async def submit(self, workflow: NewWorkflow) -> WorkflowReceipt:
        """Store a workflow with its jobs, all of them or none; they are on stable storage when this returns.

        A workflow that was stored before under its id, or under the idempotency key of its first job, is not stored
        again: a caller that got no answer can repeat the call.
        """
        check_all(workflow.jobs)
        if missing := await self._jobs.unknown_parents(workflow.jobs):
            raise unknown_parent(min(missing))
        await self._deps.waiting_limit.admit(len(workflow.jobs))
        try:
            return await self._submit(workflow)
        finally:
            self._deps.waiting_limit.finish(len(workflow.jobs))

    async def _submit(self, workflow: NewWorkflow) -> WorkflowReceipt:
        for _ in range(MOST_TRIES):
            begun = time.perf_counter()
            answers = await self._deps.store.put_workflow(workflow, bound=self._deps.queue_bound)
            if all(answer.receipt is Receipt.CREATED for answer in answers):
                await self._announce(workflow.jobs, time.perf_counter() - begun)
                self._deps.telemetry.emit(WorkflowChanged(workflow.id, workflow.name, "submitted"))
                return WorkflowReceipt(workflow.id)
            if (earlier := await self._earlier(workflow, answers)) is not None:
                return WorkflowReceipt(earlier, is_replayed=True)
            workflow = self._renumbered(workflow)
        raise StoreUnavailable("no free id was found; is this host's clock far behind the others'?")

    async def _earlier(self, workflow: NewWorkflow, answers: Sequence[Inserted]) -> WorkflowId | None:
        """Return the workflow that an earlier call has stored; None if only ids were taken by other jobs."""
        for job, answer in zip(workflow.jobs, answers, strict=True):
            if answer.receipt is Receipt.QUEUE_FULL:
                raise await self._backlogs.full(job.queue)
            if answer.receipt is Receipt.KEY_REUSED:
                raise KeyReused(_KEY_REUSED, field="idempotency_key")
            if answer.receipt is Receipt.REPLAYED:
                members = await self._deps.store.nodes_of_jobs([answer.job_id])
                if not members:
                    raise KeyReused(_KEY_REUSED, field="idempotency_key")
                return members[0].workflow_id
        stored = await self._deps.store.nodes(workflow.id)
        is_same = {one.job_id for one in stored}.issuperset(job.id for job in workflow.jobs)
        return workflow.id if is_same else None

    def _renumbered(self, workflow: NewWorkflow) -> NewWorkflow:
        nodes = [replace(one, job=replace(one.job, id=self._deps.fresh_id(), after=())) for one in workflow.nodes]
        return planned(WorkflowId(self._deps.fresh_id()), workflow.name, nodes, workflow.policy)

    async def _announce(self, jobs: Sequence[NewJob], seconds: float) -> None:
        if self._deps.telemetry.has_listeners:
            self._deps.telemetry.emit(JobsSubmitted(jobs, seconds))
        if self._deps.broker.has_subscribers:
            await self._deps.broker.announce(topics_of(jobs))

    async def one(self, workflow_id: WorkflowId) -> StoredWorkflow:
        """Return a workflow; raise `JobNotFound` if there is none of this id."""
        workflows = await self._deps.store.workflows([workflow_id])
        if not workflows:
            name = to_text(workflow_id)
            raise JobNotFound(
                f"workflow {name}: unknown; it was never submitted here, or all its jobs were pruned", field="id"
            )
        return workflows[0]

    async def nodes(self, workflow_id: WorkflowId) -> Sequence[Node]:
        """Return the nodes of a workflow, those of earlier runs included."""
        await self.one(workflow_id)
        return await self._deps.store.nodes(workflow_id)

    async def page(self, before: WorkflowId | None, limit: int) -> Sequence[StoredWorkflow]:
        """Return workflows, newest first, those before an id."""
        return await self._deps.store.workflows(before=before, limit=limit)

    async def results(self, workflow_id: WorkflowId, start: int, limit: int) -> Sequence[NodeResult]:
        """Return the current nodes from a position on, with the results of their jobs."""
        _, current = await self._read(workflow_id)
        return await self._results(current[start : start + limit])

    async def result_page(
        self, workflow_id: WorkflowId, start: int, limit: int, most_bytes: int
    ) -> tuple[Sequence[NodeResult], bool]:
        """Return results from a position on, within a limit of bytes but at least one; and whether there are more."""
        _, current = await self._read(workflow_id)
        page: list[NodeResult] = []
        total = 0
        for begin in range(start, min(start + limit, len(current)), _RESULTS_AT_ONCE):
            for one in await self._results(current[begin : min(begin + _RESULTS_AT_ONCE, start + limit)]):
                total += len((one.result or "").encode())
                if page and total > most_bytes:
                    return page, True
                page.append(one)
        return page, start + len(page) < len(current)

    async def _results(self, nodes: Sequence[Node]) -> list[NodeResult]:
        by_id = {job.id: job for job in await self._deps.store.get([one.job_id for one in nodes])}
        return [_result(one, by_id.get(one.job_id)) for one in nodes]

    async def cancel(self, workflow_id: WorkflowId, by: Actor) -> StoredWorkflow:
        """Cancel all jobs of a workflow that wait, and ask those that run to stop."""
        workflow = await self.one(workflow_id)
        for number in range(MOST_TRIES):
            nodes = await self._deps.store.nodes(workflow_id)
            # Also those that another node replaced: they may still run.
            ids = [one.job_id for one in nodes if one.state is not None and one.state not in FINISHED]
            if number == 0:
                if not ids:
                    raise IllegalTransition(f"workflow {to_text(workflow_id)}: has ended already ({workflow.state})")
                await self._record(_entry(by, "cancel", workflow))
            results = await self._jobs.act_once_each(ids, cancel, Deed.CANCELLED)
            # One that was asked to stop is left to its worker. One that has ended meanwhile may have freed another.
            if all(one.deed is Deed.ASKED_TO_STOP for one in results):
                break
        self._deps.telemetry.emit(WorkflowChanged(workflow_id, workflow.name, "cancelled"))
        return await self.one(workflow_id)

    async def retry(self, workflow_id: WorkflowId, by: Actor, *, node: str | None = None) -> StoredWorkflow:
        """Run the failed nodes again, or one node; and all nodes after them, each with a new job."""
        for _ in range(MOST_TRIES):
            workflow, current = await self._read(workflow_id)
            if node is None:
                starts = [one.position for one in current if one.has_failed]
                if not starts:
                    raise IllegalTransition(
                        f"workflow {to_text(workflow_id)}: no node has failed (state: {workflow.state}); to run one"
                        " again, name it"
                    )
            else:
                starts = [_ended(_named(current, node, workflow)).position]
            if await self._run_again(workflow, current, starts, _entry(by, "retry", workflow, node)):
                self._deps.telemetry.emit(WorkflowChanged(workflow_id, workflow.name, "retried"))
                return await self.one(workflow_id)
        raise IllegalTransition(f"workflow {to_text(workflow_id)}: keeps changing; try again")

    async def skip(self, workflow_id: WorkflowId, node: str, by: Actor) -> StoredWorkflow:
        """Skip a node: it does not run, and the nodes after it go on as if it had succeeded, without a result."""
        for _ in range(MOST_TRIES):
            workflow, current = await self._read(workflow_id)
            chosen = _named(current, node, workflow)
            entry = _entry(by, "skip", workflow, node)
            if chosen.has_failed:
                is_done = await self._skip_failed(workflow, current, chosen, entry)
            else:
                is_done = await self._skip_waiting(chosen, entry)
            if is_done:
                self._deps.telemetry.emit(WorkflowChanged(workflow_id, workflow.name, "skipped"))
                return await self.one(workflow_id)
        raise IllegalTransition(f"workflow {to_text(workflow_id)}: keeps changing; try again")

    async def _skip_waiting(self, node: Node, entry: LedgerEntry) -> bool:
        job = await self._jobs.one(node.job_id)
        settlement = skip(job)
        if not await self._deps.store.settle([settlement], entry=entry):
            return False
        self._deps.telemetry.emit(Acted(entry))
        await self._deps.broker.announce({job.queue})
        return True

    async def _skip_failed(
        self, workflow: StoredWorkflow, current: Sequence[Node], node: Node, entry: LedgerEntry
    ) -> bool:
        """Let the nodes that a failed one had ruled out run as if it had succeeded."""
        followers = [
            one.position
            for one in current
            if one.has_failed
            and any(parent.position == node.position for parent in one.parents)
            and not any(_rules_out(parent, current) for parent in one.parents if parent.position != node.position)
        ]
        return await self._run_again(workflow, current, followers, entry, skipped=(node.position,))

    async def _read(self, workflow_id: WorkflowId) -> tuple[StoredWorkflow, list[Node]]:
        workflow = await self.one(workflow_id)
        return workflow, [one for one in await self._deps.store.nodes(workflow_id) if one.is_current]

    async def _run_again(
        self,
        workflow: StoredWorkflow,
        current: Sequence[Node],
        starts: Collection[int],
        entry: LedgerEntry,
        *,
        skipped: tuple[int, ...] = (),
    ) -> bool:
        affected = sorted(below(starts, [one.parents for one in current]))
        nodes = [current[position] for position in affected]
        jobs = await self._jobs_to_repeat(nodes)
        await self._require_parents(current, nodes, {*affected, *skipped})
        now = await self._deps.store.time()
        new_ids = {one.position: self._deps.fresh_id() for one in nodes}
        made = [
            _again(jobs[one.job_id], new_ids[one.position], _dependencies(one, current, new_ids, skipped), now)
            for one in nodes
        ]
        again = Rerun(workflow.id, tuple(nodes), made, tuple(one.job_id for one in nodes), skipped)
        begun = time.perf_counter()
        if not await self._deps.store.rerun(again, entry=entry):
            return False
        self._deps.telemetry.emit(Acted(entry))
        if made:
            await self._announce(made, time.perf_counter() - begun)
        return True

    async def _jobs_to_repeat(self, nodes: Sequence[Node]) -> Mapping[JobId, Job]:
        jobs = {job.id: job for job in await self._deps.store.get([one.job_id for one in nodes])}
        for one in nodes:
            job = jobs.get(one.job_id)
            if job is None:
                raise IllegalTransition(
                    f"node {one.name!r}: its job was pruned and cannot run again; submit the workflow anew"
                )
            if job.state is State.RUNNING:
                raise IllegalTransition(
                    f"node {one.name!r}: is running and comes after the node to run again; cancel the workflow first,"
                    " or wait until it ends"
                )
            if job.delivery is Delivery.AT_MOST_ONCE and job.may_have_started:
                raise IllegalTransition(
                    f"node {one.name!r}: may have run already and must run at most once; skip it, or submit a new one"
                )
        return jobs

    async def _require_parents(self, current: Sequence[Node], nodes: Sequence[Node], affected: set[int]) -> None:
        """Refuse a re-run of nodes that would wait forever: a node before them failed, or its result was pruned."""
        for one in nodes:
            for parent in one.parents:
                if parent.position is None or parent.position in affected:
                    continue
                before = current[parent.position]
                if before.is_pruned:
                    raise IllegalTransition(
                        f"node {one.name!r}: the job of node {before.name!r}, which comes before it, was pruned; submit"
                        " the workflow anew"
                    )
                if before.has_failed and parent.need is Need.SUCCESS:
                    raise IllegalTransition(
                        f"node {one.name!r}: node {before.name!r}, which must succeed before it, has failed; retry from"
                        " that node, or skip it"
                    )
        outside = {one.job_id for node in nodes for one in node.parents if one.job_id is not None}
        if outside:
            known = {job.id for job in await self._deps.store.get(sorted(outside))}
            if missing := outside - known:
                raise unknown_parent(min(missing))

    async def _record(self, entry: LedgerEntry) -> None:
        await self._deps.store.record([entry])
        self._deps.telemetry.emit(Acted(entry))


def _rules_out(parent: NodeParent, current: Sequence[Node]) -> bool:
    """Whether a node that waits for this one cannot run, because it has failed."""
    return parent.position is not None and parent.need is Need.SUCCESS and current[parent.position].has_failed


def _dependencies(
    node: Node, current: Sequence[Node], new_ids: Mapping[int, JobId], skipped: Collection[int]
) -> tuple[Dependency, ...]:
    return tuple(_dependency(one, current, new_ids, skipped) for one in node.parents)


def _dependency(
    parent: NodeParent, current: Sequence[Node], new_ids: Mapping[int, JobId], skipped: Collection[int]
) -> Dependency:
    if parent.position is None:
        assert parent.job_id is not None
        return Dependency(parent.job_id, parent.need)
    if parent.position in new_ids:
        return Dependency(new_ids[parent.position], parent.need)
    before = current[parent.position]
    # A skipped node has ended without success, and counts as one that succeeded.
    is_skipped = before.is_skipped or before.position in skipped
    return Dependency(before.job_id, Need.END if is_skipped and parent.need is Need.SUCCESS else parent.need)


def _again(job: Job, job_id: JobId, after: tuple[Dependency, ...], now: datetime) -> NewJob:
    """Make a job that repeats another one from its beginning."""
    return NewJob(
        id=job_id,
        type=job.type,
        payload=job.payload,
        queue=job.queue,
        priority=job.priority,
        max_attempts=job.max_attempts,
        backoff=job.backoff,
        delivery=job.delivery,
        timeout=job.timeout,
        expires_at=None if job.expires_at is None else now + (job.expires_at - job.created_at),
        concurrency_key=job.concurrency_key,
        tags=job.tags,
        meta=job.meta,
        after=after,
        on_success=job.on_success,
        on_failure=job.on_failure,
    )


def _result(node: Node, job: Job | None) -> NodeResult:
    if job is None:
        return NodeResult(node.position, node.name, node.job_id, node.state, node.reason)
    return NodeResult(node.position, node.name, node.job_id, job.state, job.reason, job.result, job.error)


def _named(current: Sequence[Node], name: str, workflow: StoredWorkflow) -> Node:
    for one in current:
        if one.name == name:
            return one
    raise InvalidRequest(
        f"node: workflow {to_text(workflow.id)} has no node {name!a}; see its list of nodes", field="node"
    )


def _ended(node: Node) -> Node:
    if node.state is not None and node.state not in FINISHED:
        raise IllegalTransition(f"node {node.name!r}: has not ended (state: {node.state}); cancel it first, or wait")
    return node


def _entry(by: Actor, action: str, workflow: StoredWorkflow, node: str | None = None) -> LedgerEntry:
    detail = workflow.name if node is None else f"{workflow.name}: {node}"
    return LedgerEntry(by.name, f"workflows.{action}", to_text(workflow.id), by.origin, detail, surface=by.surface)
