"""Relations of a job: the jobs it waits for, those that wait for it, the job that made it, and its workflow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from rota.core.graph import Node
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.submission import Need
from rota.core.value import value
from rota.engine.deps import EngineDeps
from rota.engine.jobs import Jobs
from rota.ports.store import Edge

#: How many jobs are named in each direction.
MOST_RELATED: Final = 500


@value
class RelatedJob:
    """A job at the other end of a dependency; type, queue and state are None if it was pruned."""

    id: JobId
    need: Need
    is_met: bool
    type: str | None
    queue: str | None
    state: State | None


@value
class Relations:
    """The relations of one job. `node` is its node, `runs` all jobs of that node, the oldest first."""

    job: Job
    after: Sequence[RelatedJob]
    followers: Sequence[RelatedJob]
    after_count: int
    follower_count: int
    node: Node | None
    runs: Sequence[Node]


class JobRelations:
    """Reads the relations of jobs."""

    def __init__(self, deps: EngineDeps, jobs: Jobs) -> None:
        self._deps = deps
        self._jobs = jobs

    async def of(self, job_id: JobId) -> Relations:
        """Return the relations of a job; raise `JobNotFound` if there is none of this id."""
        job = await self._jobs.one(job_id)
        store = self._deps.store
        parents = await store.edges(children=[job_id])
        children = await store.edges(parents=[job_id])
        members = await store.nodes_of_jobs([job_id])
        node = members[0] if members else None
        nodes = () if node is None else await store.nodes(node.workflow_id)
        return Relations(
            job,
            await self._related((one.parent, one) for one in parents[:MOST_RELATED]),
            await self._related((one.child, one) for one in children[:MOST_RELATED]),
            len(parents),
            len(children),
            node,
            [one for one in nodes if node is not None and one.position == node.position],
        )

    async def _related(self, edges: Iterable[tuple[JobId, Edge]]) -> list[RelatedJob]:
        listed = list(edges)
        by_id = {job.id: job for job in await self._deps.store.get([job_id for job_id, _ in listed])} if listed else {}
        return [_related(job_id, edge, by_id.get(job_id)) for job_id, edge in listed]


def _related(job_id: JobId, edge: Edge, job: Job | None) -> RelatedJob:
    if job is None:
        return RelatedJob(job_id, edge.need, edge.is_met, None, None, None)
    return RelatedJob(job_id, edge.need, edge.is_met, job.type, job.queue, job.state)
