"""A worker that dies at any point of a sleep, a wait or a call: no effect happens twice, and no wake-up is lost.

The attempts use the product's own steps and engine, on real stores. Every call of a store is a point at which the
worker may die: before it, when nothing was written, or after it, when its answer is lost. First a life without a death
is recorded; then the same life is led once for each point, with the death there. The event comes before the wait
begins, at the very point of the death, or when all is quiet. After a death the lease is taken back, as the reaper does.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from builders import HOUR, ManualClock
from conformance.stores.adapters import SHARED, Adapter, opened
from rota import Happened, Rota, current
from rota.brokers.in_store import InStoreBroker
from rota.core.ids import JobId, to_text
from rota.core.job import Job
from rota.core.lease import Claim, WorkerId
from rota.core.lifecycle import FINISHED, State
from rota.core.outcome import Lost, Outcome, Succeeded
from rota.core.submission import NewJob
from rota.core.waiting import Emission
from rota.engine import Engine
from rota.ports.client import Actor, AttemptReport
from rota.ports.store import Store
from rota.worker import handler_of
from rota.worker.attempt import RunningAttempt
from rota.worker.context import CURRENT, JobContext
from rota.worker.outcomes import outcome_of
from rota.worker.step_calls import StepCalls

KINDS = ("sleep", "wait", "call")
EMISSIONS = ("before", "at the death", "afterwards")
#: The calls of a store at which a worker may die.
POINTS = frozenset({"claim", "intend", "conclude", "begin_wait", "step", "get", "settle"})
MOST_ROUNDS = 60


class Killed(BaseException):
    """The worker is gone."""


@dataclass
class MortalStore:
    """A store of a worker that dies at a point: odd points are before a call, even ones after it."""

    store: Store
    dies_at: int = 0
    at_death: Callable[[], Awaitable[object]] | None = None
    points: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any verb
        verb = getattr(self.store, name)
        return partial(self._call, name, verb) if name in POINTS else verb

    async def _call(self, name: str, verb: Any, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - the verb's
        await self._pass(f"before {name}")
        answer = await verb(*arguments, **options)
        await self._pass(f"after {name}")
        return answer

    async def _pass(self, point: str) -> None:
        self.points.append(point)
        if len(self.points) == self.dies_at:
            if self.at_death is not None:
                await self.at_death()
            raise Killed


@dataclass
class World:
    """One store, the effects outside of it, and workers that die."""

    store: Store
    clock: ManualClock
    effects: Counter[tuple[str, str]] = field(default_factory=Counter)

    def engine(self, store: Any) -> Engine:  # noqa: ANN401 - a store, or one that kills
        return Engine(store, InStoreBroker(self.store), clock=self.clock)

    def effect(self, key: str) -> tuple[Callable[[], Awaitable[str]], Callable[[], Awaitable[Happened | None]]]:
        """Return an effect outside of the store, and how to find out whether it happened."""
        place = (current().id, key)

        async def perform() -> str:
            self.effects[place] += 1
            return key

        async def look() -> Happened | None:
            return Happened(key) if self.effects[place] else None

        return perform, look

    async def handle(self, kind: str) -> object:
        job = current()
        first, look_first = self.effect("first")
        await job.astep("first", first, verify=look_first)
        match kind:
            case "sleep":
                await job.asleep("wait", HOUR)
                answer: object = None
            case "wait":
                answer = await job.await_event("wait", event=f"go:{job.id}")
            case _:
                answer = await (await job.acall("wait", CHILD, 7)).aresult()
        second, look_second = self.effect("second")
        await job.astep("second", second, verify=look_second)
        return answer

    async def attempt(self, engine: Engine) -> bool:
        """Run one job that is due; False if there is none."""
        jobs = await engine.claim(Claim(WorkerId("ada", "boot"), 1, types=("parent", "child")))
        for job in jobs:
            await engine.settle([AttemptReport(job.id, job.fence, await self._run(engine, job))])
        return bool(jobs)

    async def _run(self, engine: Engine, job: Job) -> Outcome:
        handler = handler_of(self.handle, type="parent")
        running = RunningAttempt(job, handler, None, time.monotonic(), 60.0)  # type: ignore[arg-type]  # not executed
        calls = StepCalls(engine.steps, lambda: 0.5, time.monotonic)
        token = CURRENT.set(JobContext(job, running, partial(calls.steps_for, running)))
        try:
            payload = json.loads(job.payload)
            result = payload["args"][0] if job.type == "child" else await self.handle(payload)
            return Succeeded(json.dumps(result))
        except Killed:
            raise
        except BaseException as raised:  # noqa: BLE001 - whatever a handler raises is its outcome
            return outcome_of(raised, handler)
        finally:
            CURRENT.reset(token)

    async def live(self, kind: str, emission: str, dies_at: int) -> list[str]:
        """Lead one life of a job to its end, with a death at a point, and return the points that were passed."""
        plain = self.engine(self.store)
        parent = NewJob(plain.fresh_id(), "parent", json.dumps(kind), max_attempts=1_000)
        await plain.submit([parent])
        event = Emission(f"go:{to_text(parent.id)}", json.dumps(emission))

        async def emit() -> None:
            await plain.events.emit(event, Actor("olga"))

        if emission == "before":
            await emit()
        mortal = MortalStore(self.store, dies_at, emit if emission == "at the death" else None)
        engine = self.engine(mortal)
        for number in range(MOST_ROUNDS):
            try:
                if await self.attempt(engine):
                    continue
            except Killed:
                await self._take_back(plain)
                engine = plain
                continue
            if (await self._state(parent.id)) in FINISHED:
                break
            # All is quiet: now the time comes, or the event.
            self.clock.move(HOUR)
            await plain.upkeep.promote(100)
            await plain.upkeep.end_waits(100)
            if number:
                await emit()
        await self._judge(parent, kind, emission)
        return mortal.points

    async def _take_back(self, engine: Engine) -> None:
        self.clock.move(timedelta(minutes=5))
        lost = [AttemptReport(job.id, job.fence, Lost()) for job in await self.store.lost(10)]
        await engine.settle(lost)

    async def _state(self, job_id: JobId) -> State:
        (job,) = await self.store.get([job_id])
        return job.state

    async def _judge(self, parent: NewJob, kind: str, emission: str) -> None:
        (job,) = await self.store.get([parent.id])
        answers = {"sleep": None, "wait": emission, "call": 7}
        assert (job.state, json.loads(job.result or "1")) == (State.COMPLETED, answers[kind]), (job, kind, emission)
        name = to_text(parent.id)
        assert {key: count for (one, key), count in self.effects.items() if one == name} == {"first": 1, "second": 1}
        # One attempt that counted for the life, and one for each death.
        assert job.attempts <= 2
        assert job.fence >= job.attempts


def _child(number: int) -> int:
    return number


CHILD = Rota().task(name="child")(_child)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("adapter", SHARED, ids=lambda adapter: adapter.name)
async def test_a_death_at_any_point_doubles_no_effect_and_loses_no_wake_up(
    adapter: Adapter, kind: str, emission: str, tmp_path: Path
) -> None:
    clock = ManualClock()
    async with opened(adapter, tmp_path, clock) as store:
        world = World(store, clock)
        points = await world.live(kind, emission, dies_at=0)
        assert len(points) >= 16
        for number in range(1, len(points) + 1):
            await world.live(kind, emission, dies_at=number)
        assert await store.check() == []
