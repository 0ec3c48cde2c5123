"""The reference model's workflows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime

from conformance.model.schedules import Schedules
from rota.core.graph import (
    NewWorkflow,
    Node,
    NodeCount,
    Rerun,
    StoredWorkflow,
    WorkflowId,
    WorkflowPolicy,
    after_failures,
)
from rota.core.ids import JobId
from rota.core.ledger import LedgerEntry
from rota.core.lifecycle import FINISHED, WAITING, State
from rota.core.settlement import Reason
from rota.ports.store import Inserted, Receipt


class Workflows(Schedules):
    async def put_workflow(
        self,
        workflow: NewWorkflow,
        *,
        bound: int | None = None,
        entry: LedgerEntry | None = None,
        now: datetime | None = None,
    ) -> Sequence[Inserted]:
        moment = self.at(now)
        before = {name: _copied(kept) for name, kept in self.__dict__.items() if name != "clock"}
        answers = await self.insert(workflow.jobs, bound=bound, now=now)
        if any(one.receipt is not Receipt.CREATED for one in answers):
            self.__dict__.update(before)
            return answers
        self.graphs[workflow.id] = StoredWorkflow(
            workflow.id, workflow.name, workflow.policy, len(workflow.nodes), moment
        )
        kept = after_failures([node.parents for node in workflow.nodes])
        for position, node in enumerate(workflow.nodes):
            self.nodes_by_job[node.job.id] = Node(
                workflow.id,
                position,
                node.name,
                node.job.id,
                node.parents,
                position in kept,
                None,
                is_skipped=False,
                state=None,
                reason=None,
            )
        self.write(entry, moment)
        return answers

    async def rerun(self, again: Rerun, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        moment = self.at(now)
        current = {one.job_id for one in self.nodes_by_job.values() if one.is_current}
        if not current.issuperset(again.replaces) or any(job.id in self.jobs for job in again.jobs):
            return False
        for old, job in zip(again.replaces, again.jobs, strict=True):
            node = self.nodes_by_job[old]
            self.nodes_by_job[old] = replace(node, replaced_by=job.id)
            self.nodes_by_job[job.id] = replace(
                node, job_id=job.id, replaced_by=None, is_skipped=False, state=None, reason=None, is_pruned=False
            )
        for one in list(self.nodes_by_job.values()):
            if one.workflow_id == again.workflow_id and one.is_current and one.position in again.skipped:
                self.nodes_by_job[one.job_id] = replace(one, is_skipped=True)
        self.replace_jobs(again.replaces, moment)
        await self.insert(again.jobs, now=now)
        self.write(entry, moment)
        return True

    async def workflows(
        self, ids: Sequence[WorkflowId] | None = None, *, before: WorkflowId | None = None, limit: int = 100
    ) -> Sequence[StoredWorkflow]:
        chosen = [one for one in self.graphs.values() if ids is None or one.id in ids]
        chosen = sorted((one for one in chosen if before is None or one.id < before), key=lambda one: -one.id)
        return [self._counted(one) for one in (chosen if ids is not None else chosen[:limit])]

    def _counted(self, workflow: StoredWorkflow) -> StoredWorkflow:
        nodes = [self._shown(one) for one in self.nodes_by_job.values() if one.workflow_id == workflow.id]
        counts = Counter((one.state, one.reason, one.is_skipped) for one in nodes if one.is_current)
        return replace(workflow, counts=tuple(NodeCount(*kind, count) for kind, count in counts.items()))

    def _shown(self, node: Node) -> Node:
        job = self.jobs.get(node.job_id)
        if job is None:
            return node
        return replace(
            node,
            state=job.state,
            reason=job.reason,
            type=job.type,
            queue=job.queue,
            attempts=job.attempts,
            created_at=job.created_at,
            started_at=job.started_at,
            finished_at=job.finished_at,
            run_at=job.run_at,
        )

    async def nodes(self, workflow_id: WorkflowId) -> Sequence[Node]:
        found = [self._shown(one) for one in self.nodes_by_job.values() if one.workflow_id == workflow_id]
        return sorted(found, key=lambda one: (one.position, one.job_id))

    async def nodes_of_jobs(self, ids: Sequence[JobId]) -> Sequence[Node]:
        return [self._shown(self.nodes_by_job[one]) for one in sorted(ids) if one in self.nodes_by_job]

    def fail_fast(self, failed: Iterable[JobId], now: datetime) -> list[JobId]:
        workflows = {
            self.nodes_by_job[one].workflow_id
            for one in failed
            if one in self.nodes_by_job and self.nodes_by_job[one].is_current
        }
        others = [
            one.job_id
            for one in self.nodes_by_job.values()
            if one.workflow_id in workflows
            and self.graphs[one.workflow_id].policy is WorkflowPolicy.FAIL_FAST
            and one.is_current
            and not one.runs_after_failure
            and one.job_id in self.jobs
            and self.jobs[one.job_id].state not in FINISHED
        ]
        ended = []
        for job_id in others:
            if self.jobs[job_id].state is State.RUNNING:
                self._mark(job_id, now)
            elif self.jobs[job_id].state in WAITING:
                self._cancel(job_id, Reason.WORKFLOW_FAILED, now)
                ended.append(job_id)
        return self._tell_children(ended, now)

    def forget(self, jobs: Iterable[JobId]) -> None:
        gone = list(jobs)
        for job_id in gone:
            if job_id in self.nodes_by_job:
                job = self.jobs[job_id]
                self.nodes_by_job[job_id] = replace(
                    self.nodes_by_job[job_id], state=job.state, reason=job.reason, is_pruned=True
                )
        super().forget(gone)
        living = {one.workflow_id for one in self.nodes_by_job.values() if not one.is_pruned}
        self.graphs = {one.id: one for one in self.graphs.values() if one.id in living}
        self.nodes_by_job = {one.job_id: one for one in self.nodes_by_job.values() if one.workflow_id in living}


def _copied(kept: object) -> object:
    """Copy what the model remembers, and what its dictionaries hold in turn."""
    made = copy(kept)
    if isinstance(made, dict):
        made.update({name: copy(one) for name, one in made.items() if isinstance(one, dict | list | set)})
    return made
