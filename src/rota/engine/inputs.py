"""Inputs: the first argument that a job takes from the jobs before it, read when its attempt starts.

Only completed parents have a result, so what an attempt without a lease reported can never be passed on.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from rota.batching import Batcher
from rota.core.dependencies import takes_of
from rota.core.errors import InvalidRequest
from rota.core.graph import DEEPEST
from rota.core.ids import JobId, to_text
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.settlement import Reason
from rota.core.submission import SHAPE, Need, Takes
from rota.engine.deps import EngineDeps
from rota.ports.store import Edge, Store

LeaseKey = tuple[JobId, int]

#: The longest input, in characters of JSON.
LARGEST_INPUT: Final = 16_000_000
#: How many jobs' inputs are read together, and up to how many parents of each.
LARGEST_BATCH: Final = 100
FEW_PARENTS: Final = 5
#: How many parents are read at once.
_PARENTS_AT_ONCE: Final = 500


class Inputs:
    """Reads what running jobs take from their parents.

    Calls that come at the same time share their queries: a worker that drains chains has hundreds under way.
    """

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps
        self._batcher: Batcher[LeaseKey, str | None] = Batcher(self._read_batch, largest=LARGEST_BATCH, prompt=True)

    async def input_of(self, job_id: JobId, fence: int) -> str | None:
        """Return the first argument of a running job, as JSON; None if the job no longer runs under this fence."""
        (value,) = await self._batcher.run([(job_id, fence)])
        return value

    async def _read_batch(self, keys: Sequence[LeaseKey]) -> Sequence[str | None]:
        store = self._deps.store
        ids = sorted({job_id for job_id, _ in keys})
        # In parallel: neither needs the other, and the slot is idle until the input is read.
        jobs, edges = await asyncio.gather(store.get(ids), store.edges(children=ids))
        by_id = {job.id: job for job in jobs}
        running = {key: job for key in keys if (job := by_id.get(key[0])) is not None and _is_held(job, key[1])}
        reading = _Reading(store, jobs, edges)
        await reading.prefetch(running.values())
        return [None if key not in running else await reading.input_of(running[key]) for key in keys]


def _is_held(job: Job, fence: int) -> bool:
    return job.fence == fence and job.state is State.RUNNING


class _Reading:
    """What some jobs take: their dependencies are known; parents that are few are read together."""

    def __init__(self, store: Store, jobs: Iterable[Job], edges: Iterable[Edge]) -> None:
        self._store = store
        self._known: dict[JobId, Job] = {}
        self._edges: dict[JobId, dict[JobId, Need]] = {job.id: {} for job in jobs}
        for edge in edges:
            self._edges.setdefault(edge.child, {})[edge.parent] = edge.need

    async def prefetch(self, jobs: Iterable[Job]) -> None:
        """Read the parents of jobs that have few."""
        few = [parents for job in jobs if len(parents := self._parents(job)) <= FEW_PARENTS]
        parent_ids = sorted({parent for parents in few for parent in parents})
        self._known = {job.id: job for job in await self._get(parent_ids)} if parent_ids else {}

    async def _get(self, ids: Sequence[JobId]) -> Sequence[Job]:
        """Return jobs, each if it is there; those that are known are not read again."""
        if self._known.keys() >= set(ids):
            return [self._known[job_id] for job_id in ids]
        return await self._store.get(ids)

    async def input_of(self, job: Job) -> str:
        """Return the first argument of a job, as JSON."""
        match takes_of(job):
            case Takes.NOTHING:
                raise InvalidRequest(f"{job.name} takes nothing from other jobs; submit it with `takes`", field="takes")
            case Takes.RESULTS:
                return await self._results(job)
            case Takes.RESULT:
                return await self._only_result(job)
            case Takes.FAILURE:
                return await self._failure(job)

    def _parents(self, job: Job) -> Mapping[JobId, Need]:
        """Return the jobs that a job waited for, in its own order, or the job that it follows; and what it needs."""
        if edges := self._edges.get(job.id):
            return edges
        return {} if job.parent_id is None else {job.parent_id: Need.END}

    async def _only_result(self, job: Job) -> str:
        parents = self._parents(job)
        if len(parents) != 1:
            message = (
                f"takes: {job.name} takes the result of one job but follows {len(parents)}; submit it with 'results'"
            )
            raise InvalidRequest(message, field="takes")
        (result,) = await self._read(job, parents)
        return result

    async def _results(self, job: Job) -> str:
        parents = self._parents(job)
        # A pruned job takes its dependencies with it: a list that lacks one would look like a shorter group.
        expected = await self._parent_count(job) or 1
        if len(parents) < expected:
            raise _pruned(job, expected - len(parents), expected)
        results = await self._read(job, parents)
        shape = job.meta.get(SHAPE)
        return _folded(results, None if shape is None else json.loads(shape))

    async def _parent_count(self, job: Job) -> int:
        """Return how many jobs come before this one in its workflow; 0 if it belongs to none."""
        nodes = await self._store.nodes_of_jobs([job.id])
        return len({(one.position, one.job_id) for one in nodes[0].parents}) if nodes else 0

    async def _read(self, job: Job, parents: Mapping[JobId, Need]) -> list[str]:
        """Return the results of parents; null for one that has no result.

        Refuses if one was pruned, or has failed though the job needs its success: an operator has run the job by hand.
        """
        results: dict[JobId, str] = {}
        ids = list(parents)
        size = count = 0
        for start in range(0, len(ids), _PARENTS_AT_ONCE):
            for parent in await self._get(ids[start : start + _PARENTS_AT_ONCE]):
                count += 1
                if parent.state is State.COMPLETED and parent.result is not None:
                    results[parent.id] = parent.result
                    size += len(parent.result) + 1
                elif parents[parent.id] is Need.SUCCESS and not _has_succeeded(parent):
                    raise _without_success(job, parent)
            if size > LARGEST_INPUT:
                raise _too_large(job, len(parents))
        if count < len(parents):
            raise _pruned(job, len(parents) - count, len(parents))
        return [results.get(parent, "null") for parent in ids]

    async def _failure(self, job: Job) -> str:
        """Describe the job that failed: of several parents the first; null if none did.

        A parent that failed only because another job did is not described, but that other one.
        """
        failed = await self._failed_parent(job)
        for _ in range(DEEPEST):
            if failed is None or failed.reason is not Reason.DEPENDENCY_FAILED:
                break
            cause = await self._failed_parent(failed)
            if cause is None:
                break
            failed = cause
        return "null" if failed is None else _described(failed)

    async def _failed_parent(self, job: Job) -> Job | None:
        if job.id not in self._edges:
            edges = await self._store.edges(children=[job.id])
            self._edges[job.id] = {edge.parent: edge.need for edge in edges}
        parents = list(self._parents(job))
        for start in range(0, len(parents), _PARENTS_AT_ONCE):
            by_id = {one.id: one for one in await self._get(parents[start : start + _PARENTS_AT_ONCE])}
            for parent in parents[start : start + _PARENTS_AT_ONCE]:
                if parent in by_id and _has_failed(by_id[parent]):
                    return by_id[parent]
        return None


def _has_failed(job: Job) -> bool:
    return job.state in {State.DEAD, State.CANCELLED} and job.reason not in {Reason.NOT_NEEDED, Reason.SKIPPED}


def _has_succeeded(job: Job) -> bool:
    return job.state is State.COMPLETED or job.reason is Reason.SKIPPED


def _folded(results: Sequence[str], shape: list[Any] | None) -> str:
    """Write results as a JSON list, folded into the lists of nested groups if there is a shape."""
    rest = iter(results)

    def fold(parts: list[Any]) -> str:
        written: list[str] = []
        for part in parts:
            written += islice(rest, part) if isinstance(part, int) else [fold(part)]
        return f"[{','.join(written)}]"

    return fold([len(results)] if shape is None else shape)


def _described(job: Job) -> str:
    error = None if job.error is None else {"kind": job.error.kind, "message": job.error.message}
    head = {"id": to_text(job.id), "type": job.type, "state": job.state, "reason": job.reason, "error": error}
    return f'{json.dumps(head)[:-1]}, "payload": {job.payload}}}'


def _without_success(job: Job, parent: Job) -> InvalidRequest:
    return InvalidRequest(
        f"takes: {job.name} takes the result of {parent.name}, which has not succeeded (state: {parent.state}); let"
        " that job succeed first, or retry or skip its node of the workflow",
        field="takes",
    )


def _pruned(job: Job, gone: int, parents: int) -> InvalidRequest:
    which = f"{gone} of the {parents} jobs before {job.name}" if parents > 1 else f"the job before {job.name}"
    return InvalidRequest(
        f"takes: {which} {'was' if gone == 1 else 'were'} pruned, and the results with it; submit the workflow or the"
        " jobs anew, or keep completed jobs longer",
        field="takes",
    )


def _too_large(job: Job, parents: int) -> InvalidRequest:
    return InvalidRequest(
        f"takes: the results of the {parents} jobs before {job.name} are longer than {LARGEST_INPUT:,} characters of"
        " JSON; return less from them, or store the data elsewhere and return where",
        field="takes",
    )
