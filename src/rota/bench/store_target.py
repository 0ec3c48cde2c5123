"""A bench target that is a store: jobs are submitted in this process, without an API."""

from __future__ import annotations

from collections.abc import Sequence

from rota.bench.plan import TYPE, BenchPlan
from rota.bench.targets import UNFINISHED, JobTimes, QueueCounts, RequestFailed, ServerUsage, Submitted, WorkerCapacity
from rota.core.cluster import ALIVE_FOR, Role
from rota.core.errors import RotaError
from rota.core.ids import JobId, to_number, to_text
from rota.core.lifecycle import State
from rota.core.submission import NewJob
from rota.engine import Engine
from rota.ports.client import Actor
from rota.ports.store import Receipt
from rota.runtime.link import Link
from rota.telemetry.events import Event, JobsSubmitted

_BY = Actor("rota bench")


class StoreTarget:
    """An engine in this process on the store; its CPU time is that of this process."""

    def __init__(self, plan: BenchPlan, link: Link, name: str) -> None:
        if link.engine is None:
            raise TypeError("a store has an engine")
        self.name = name
        self.store = name.partition("://")[0] if "://" in name else "sqlite"
        self.is_http = False
        self._plan = plan
        self._link = link
        self._engine: Engine = link.engine
        self._calls = 0
        self._seconds = 0.0
        self._unsubscribe = self._engine.telemetry.listen(self._on_event)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, JobsSubmitted):
            self._calls += 1
            self._seconds += event.seconds

    async def submit(self, caller: int, count: int) -> Submitted:
        del caller
        plan = self._plan
        jobs = [
            NewJob(id=self._engine.fresh_id(), type=TYPE, payload=plan.payload, queue=plan.queue, tags=(plan.tag,))
            for _ in range(count)
        ]
        try:
            answers = await self._engine.submit(jobs)
        except RotaError as error:
            raise RequestFailed(type(error).__name__) from error
        made = [to_text(answer.job_id) for answer in answers if answer.receipt is Receipt.CREATED]
        return Submitted(made, [answer.receipt for answer in answers if answer.receipt is not Receipt.CREATED])

    async def round_trip(self) -> None:
        """Do nothing: there is no network."""

    async def usage(self) -> Sequence[ServerUsage]:
        return [ServerUsage(None, self._calls, self._seconds)]

    async def capacity(self) -> WorkerCapacity:
        queue = self._plan.queue
        # By the store's clock, which also recorded the heartbeats.
        since = await self._engine.store.time() - ALIVE_FOR
        workers = await self._engine.store.members(role=Role.WORKER, since=since)
        able = [one for one in workers if queue in one.queues and (one.types is None or TYPE in one.types)]
        able = [one for one in able if not one.is_draining]
        paused = {one.name for one in await self._engine.queues.all() if one.paused_at is not None}
        return WorkerCapacity(len(able), sum(one.slots for one in able), queue in paused)

    async def counts(self) -> QueueCounts:
        lanes = (await self._engine.census()).lanes
        counted = [one for one in lanes if (one.lane.queue, one.lane.type) == (self._plan.queue, TYPE)]
        counted = [one for one in counted if one.state in UNFINISHED]
        running = sum(one.count for one in counted if one.state is State.RUNNING)
        return QueueCounts(sum(one.count for one in counted) - running, running)

    async def times(self, ids: Sequence[str]) -> Sequence[JobTimes]:
        jobs = await self._engine.get(_numbers(ids))
        return [JobTimes(job.created_at, job.started_at, job.finished_at) for job in jobs]

    async def cancel(self, ids: Sequence[str]) -> None:
        await self._engine.cancel(_numbers(ids), _BY)

    async def discard(self, ids: Sequence[str]) -> int:
        answers = await self._engine.jobs.discard(_numbers(ids), _BY)
        return sum(answer.refusal is None for answer in answers)

    async def close(self) -> None:
        self._unsubscribe()
        await self._link.close()


def _numbers(ids: Sequence[str]) -> list[JobId]:
    return [JobId(to_number(text)) for text in ids]
