"""Random walks of a circuit breaker: workers that die, a clock that is set, a dependency that fails and recovers.

Each walk counts starts and outcomes itself. Whatever happens, no more jobs start while the breaker is open than the
rate of probes allows, no job that waits loses an attempt, and in the end every job completes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import SECOND, ManualClock, claim, error, new_jobs
from conformance.stores.adapters import BY_NAME, opened
from conformance.stores.test_breakers import Scene, scene_on
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import WorkerId
from rota.core.lifecycle import FINISHED, State
from rota.core.outcome import Failed, Succeeded
from rota.ports.client import AttemptReport
from rota.ports.store import JobQuery

OPEN_SECONDS, PROBES = 30.0, 2
STEPS = ("submit", "start", "start", "end", "end", "end", "wait", "wait", "kill", "toggle", "step_back", "step_ahead")


@dataclass
class Walk:
    """One deployment: two workers, what they hold, and whether the dependency answers."""

    scene: Scene
    chance: Random
    is_up: bool = True
    held: list[Job] = field(default_factory=list)
    #: When jobs started while the breaker was open, by the steady clock, since it opened last.
    probes: list[float] = field(default_factory=list)
    submitted: set[JobId] = field(default_factory=set)
    had_started: set[JobId] = field(default_factory=set)
    #: Whether the clock was set since the breaker opened: then periods are not what they were.
    is_too_far_ahead: bool = False

    async def walk(self, steps: list[str]) -> None:
        for step in steps:
            await getattr(self, step)()
            await self.hold_to_the_rules()
        await self.recover()

    async def submit(self) -> None:
        jobs = new_jobs(self.chance.randint(1, 5), max_attempts=50)
        self.submitted.update(job.id for job in jobs)
        await self.scene.store.insert(jobs)

    async def start(self) -> None:
        await self.scene.engine.upkeep.promote(1000)
        (before,) = await self.scene.store.breakers(["stripe"])
        worker = WorkerId(f"w{self.chance.randint(1, 2)}", "b")
        jobs = await self.scene.engine.claim(claim(worker, self.chance.randint(1, 6), lease=timedelta(seconds=20)))
        self.held += jobs
        self.had_started.update(job.id for job in jobs)
        if before.is_open:
            self.probes += [self.scene.clock.steady()] * len(jobs)
        else:
            self.probes, self.is_too_far_ahead = [], False

    async def end(self) -> None:
        self.chance.shuffle(self.held)
        jobs, self.held = self.held[:2], self.held[2:]
        outcome = Succeeded() if self.is_up else Failed(error("refused"), dependency=True)
        reports = [AttemptReport(job.id, job.fence, outcome, breaker="stripe") for job in jobs]
        await self.scene.engine.settle(reports)

    async def wait(self) -> None:
        self.scene.clock.move(self.chance.choice([0.1, 1, 7, 31]) * SECOND)

    async def kill(self) -> None:
        """A worker dies with all it holds; after a while its jobs are taken from it."""
        name = f"w{self.chance.randint(1, 2)}"
        self.held = [job for job in self.held if job.worker != name]
        self.scene.clock.move(25 * SECOND)
        await self.scene.engine.upkeep.reap(1000)

    async def toggle(self) -> None:
        self.is_up = not self.is_up

    async def step_back(self) -> None:
        self.scene.clock.step(-600 * SECOND)
        self.is_too_far_ahead = True

    async def step_ahead(self) -> None:
        self.scene.clock.step(600 * SECOND)
        self.is_too_far_ahead = True

    async def hold_to_the_rules(self) -> None:
        # A burst of probes, and one for each part of a period after it.
        for first in () if self.is_too_far_ahead else self.probes:
            within = [one for one in self.probes if first <= one < first + OPEN_SECONDS]
            assert len(within) <= 2 * PROBES, self.probes
        waiting = [one for one in await self.scene.store.get(sorted(self.submitted)) if one.id not in self.had_started]
        assert all(job.attempts == 0 for job in waiting)

    async def recover(self) -> None:
        """With the dependency up, all jobs complete, and the breaker closes."""
        self.is_up = True
        for _ in range(200):
            await self.start()
            while self.held:
                await self.end()
            self.scene.clock.move(20 * SECOND)
            await self.scene.engine.upkeep.reap(1000)
            left = await self.scene.store.find(JobQuery(states=tuple(set(State) - FINISHED), limit=1))
            if not left:
                break
        states = {one.state for one in await self.scene.store.get(sorted(self.submitted))}
        assert states <= {State.COMPLETED}, states
        (breaker,) = await self.scene.store.breakers(["stripe"])
        assert not breaker.is_open or not self.submitted


async def _walk(steps: list[str], seed: int) -> None:
    clock = ManualClock()
    with TemporaryDirectory() as folder:
        async with opened(BY_NAME["sqlite-memory"], Path(folder), clock) as store, scene_on(store, clock) as scene:
            await Walk(scene, Random(seed)).walk(steps)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=60), st.integers(0, 2**32))
def test_a_breaker_holds_and_recovers_whatever_happens(steps: list[str], seed: int) -> None:
    asyncio.run(_walk(steps, seed))
