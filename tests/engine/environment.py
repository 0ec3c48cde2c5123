"""Test environment of the engine: a real store in memory, separate clocks for store and host, recorded events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar, cast

from builders import ADA, BASE, ManualClock, claim
from rota.brokers.in_store import InStoreBroker
from rota.core.errors import StoreUnavailable
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import Claim, WorkerId
from rota.core.outcome import Outcome
from rota.core.submission import NewJob
from rota.engine import Engine
from rota.ports.client import Actor, AttemptReport
from rota.ports.store import Store
from rota.ports.wakeup import Topic
from rota.stores.sqlite import SqliteStore
from rota.telemetry.events import Event
from simulation.loop import run

OLGA = Actor("olga", "127.0.0.1")
E = TypeVar("E")


class FaultyStore:
    """A store whose calls can be made to fail: the request or the response of the next call of a verb is lost."""

    keeps_waiting_claims = False

    def __init__(self, store: Store) -> None:
        self._store = store
        self._losses: dict[str, bool] = {}
        self._failures: dict[str, Exception] = {}
        self._interventions: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {}
        self.calls: list[str] = []

    def cut(self, verb: str, *, arrives: bool = False) -> None:
        """Lose the next call of a verb, or only its answer."""
        self._losses[verb] = arrives

    def fail(self, verb: str, error: Exception) -> None:
        """Make the next call of a verb raise an error that no store documents."""
        self._failures[verb] = error

    def before(self, verb: str, intervene: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Run something just before the next call of a verb, as a concurrent process would."""
        self._interventions[verb] = intervene

    def limit_pause(self, claim: Claim) -> timedelta | None:
        return self._store.limit_pause(claim)

    def frees_permit(self, ids: Collection[JobId]) -> bool:
        return self._store.frees_permit(ids)

    def __getattr__(self, verb: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        ask = getattr(self._store, verb)

        async def call(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as the verb does
            self.calls.append(verb)
            intervene = self._interventions.pop(verb, None)
            if intervene is not None:
                await intervene()
            if verb in self._failures:
                raise self._failures.pop(verb)
            arrives = self._losses.pop(verb, None)
            if arrives is None:
                return await ask(*arguments, **options)
            if arrives:
                await ask(*arguments, **options)
            raise StoreUnavailable(f"{verb}: the connection is cut")

        return call


S = TypeVar("S", bound=FaultyStore)


@dataclass(slots=True)
class EngineEnvironment:
    """An engine and helpers to call it."""

    engine: Engine
    #: The store itself, without faults.
    store: Store
    faulty_store: FaultyStore
    #: The store's clock, and the one of the host that the engine runs on.
    clock: ManualClock
    host_clock: ManualClock
    events: list[Event] = field(default_factory=list)

    def events_of(self, kind: type[E]) -> list[E]:
        """Return the events of a type, and clear the list of events."""
        matching: list[E] = [event for event in self.events if isinstance(event, kind)]
        self.events.clear()
        return matching

    async def submit(self, *jobs: NewJob) -> None:
        await self.engine.submit(jobs)

    async def look(self, job: NewJob | Job | JobId) -> Job:
        (found,) = await self.store.get([job if isinstance(job, int) else job.id])
        return found

    async def begin(self, *jobs: NewJob, worker: WorkerId = ADA) -> Sequence[Job]:
        """Submit jobs and claim them through the engine."""
        await self.submit(*jobs)
        return await self.engine.claim(claim(worker, queues=tuple({job.queue for job in jobs})))

    async def report(self, job: Job, outcome: Outcome, log_tail: str | None = None) -> Sequence[JobId]:
        return await self.engine.settle([AttemptReport(job.id, job.fence, outcome, log_tail)])

    async def wakes(self, topic: Topic, act: Coroutine[Any, Any, object]) -> bool:
        """Return whether an action wakes a subscriber of a topic."""
        with self.engine.broker.subscribe((topic,)) as subscription:
            await act
            return bool(await subscription.wait(timedelta(0)))


def in_virtual_time(
    act: Callable[[Engine, S], Awaitable[None]], store_type: type[S], broker_type: type[InStoreBroker] = InStoreBroker
) -> None:
    """Run a test in virtual time, on an engine whose store can fail and uses the virtual clock."""

    async def run_test() -> None:
        loop = asyncio.get_running_loop()
        clock = lambda: BASE + timedelta(seconds=loop.time())  # noqa: E731
        store = await SqliteStore.open(":memory:", clock=clock)
        faulty_store = store_type(store)
        broker = broker_type(cast("Store", faulty_store))
        try:
            await act(Engine(cast("Store", faulty_store), broker, clock=clock, rng=lambda: 0.5), faulty_store)
        finally:
            await broker.close()
            await store.close()

    run(run_test(), seed=1)


@asynccontextmanager
async def engine_in_memory() -> AsyncIterator[EngineEnvironment]:
    clock, host_clock = ManualClock(), ManualClock()
    store = await SqliteStore.open(":memory:", clock=clock)
    faulty_store = FaultyStore(store)
    seen = cast("Store", faulty_store)
    broker = InStoreBroker(seen)
    engine = Engine(seen, broker, clock=host_clock, rng=lambda: 0.5, steady=clock.steady)
    env = EngineEnvironment(engine, store, faulty_store, clock, host_clock)
    engine.telemetry.listen(env.events.append)
    # As if a scheduler had read the store's clock before the test begins.
    await engine.upkeep.timetable()
    faulty_store.calls.clear()
    try:
        yield env
    finally:
        await broker.close()
        await store.close()
