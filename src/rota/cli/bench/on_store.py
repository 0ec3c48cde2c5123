"""A store that is loaded directly, as a program does that submits without an API between."""

from __future__ import annotations

from collections.abc import Sequence

from rota.cli.bench.plan import TYPE, Plan
from rota.cli.bench.targets import UNDER_WAY, Crew, Made, Strain, Tide, Times, Trouble
from rota.core.errors import RotaError
from rota.core.fleet import ALIVE_FOR, Role
from rota.core.identity import JobId, to_number, to_text
from rota.core.lifecycle import State
from rota.core.submission import NewJob
from rota.engine import Engine
from rota.ports.faces import Actor
from rota.ports.store import Receipt
from rota.runtime.link import Link
from rota.telemetry.events import Event, JobsSubmitted

_BY = Actor("rota bench")


class OnStore:
    """An engine of our own on the store. Its work is this process's work."""

    def __init__(self, plan: Plan, link: Link, name: str) -> None:
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
        self._leave = self._engine.telemetry.listen(self._heard)

    def _heard(self, event: Event) -> None:
        if isinstance(event, JobsSubmitted):
            self._calls += 1
            self._seconds += event.seconds

    async def submit(self, caller: int, count: int) -> Made:
        """Submit jobs in one call."""
        del caller
        plan = self._plan
        jobs = [
            NewJob(id=self._engine.fresh_id(), type=TYPE, payload=plan.payload, queue=plan.queue, tags=(plan.tag,))
            for _ in range(count)
        ]
        try:
            answers = await self._engine.submit(jobs)
        except RotaError as error:
            raise Trouble(type(error).__name__) from error
        made = [to_text(answer.job_id) for answer in answers if answer.receipt is Receipt.CREATED]
        return Made(made, [answer.receipt for answer in answers if answer.receipt is not Receipt.CREATED])

    async def round_trip(self) -> None:
        """Nothing lies between."""

    async def strain(self) -> Sequence[Strain]:
        """Say how long the store took; the CPU is our own."""
        return [Strain(None, self._calls, self._seconds)]

    async def crew(self) -> Crew:
        """Look at the workers on record, and at the queue."""
        queue = self._plan.queue
        # By the store's clock: it is the one that wrote down when they were seen.
        since = await self._engine.store.time() - ALIVE_FOR
        there = await self._engine.store.members(role=Role.WORKER, since=since)
        able = [one for one in there if queue in one.queues and (one.types is None or TYPE in one.types)]
        able = [one for one in able if not one.is_draining]
        paused = {one.name for one in await self._engine.queues.all() if one.paused_at is not None}
        return Crew(len(able), sum(one.slots for one in able), queue in paused)

    async def tide(self) -> Tide:
        """Count the queue's jobs."""
        lanes = (await self._engine.census()).lanes
        mine = [one for one in lanes if (one.lane.queue, one.lane.type) == (self._plan.queue, TYPE)]
        mine = [one for one in mine if one.state in UNDER_WAY]
        running = sum(one.count for one in mine if one.state is State.RUNNING)
        return Tide(sum(one.count for one in mine) - running, running)

    async def times(self, ids: Sequence[str]) -> Sequence[Times]:
        """Look at jobs."""
        jobs = await self._engine.get(_numbers(ids))
        return [Times(job.created_at, job.started_at, job.finished_at) for job in jobs]

    async def cancel(self, ids: Sequence[str]) -> None:
        """Cancel jobs; those that have ended stay as they are."""
        await self._engine.cancel(_numbers(ids), _BY)

    async def discard(self, ids: Sequence[str]) -> int:
        """Delete them."""
        answers = await self._engine.jobs.discard(_numbers(ids), _BY)
        return sum(answer.refusal is None for answer in answers)

    async def close(self) -> None:
        """Let go of the store."""
        self._leave()
        await self._link.close()


def _numbers(ids: Sequence[str]) -> list[JobId]:
    return [JobId(to_number(text)) for text in ids]
