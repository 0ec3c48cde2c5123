"""An engine on a real store in memory, with two clocks that can disagree, and ears for what it tells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar, cast

from building import ADA, BASE, ManualClock, claim
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


class Line:
    """The store at the end of a line that can be cut: before the next call of a verb, or before its answer."""

    keeps_waiting_claims = False

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cuts: dict[str, bool] = {}
        self._failures: dict[str, Exception] = {}
        self._meddlers: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {}
        self.calls: list[str] = []

    def cut(self, verb: str, *, arrives: bool = False) -> None:
        """Lose the next call of a verb, or only its answer."""
        self._cuts[verb] = arrives

    def fail(self, verb: str, error: Exception) -> None:
        """Have the next call of a verb raise something that no store should."""
        self._failures[verb] = error

    def before(self, verb: str, meddle: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Let somebody else be quicker than the next call of a verb."""
        self._meddlers[verb] = meddle

    def limit_pause(self, claim: Claim) -> timedelta | None:
        return self._store.limit_pause(claim)

    def frees_permit(self, ids: Collection[JobId]) -> bool:
        return self._store.frees_permit(ids)

    def __getattr__(self, verb: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        ask = getattr(self._store, verb)

        async def call(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as the verb does
            self.calls.append(verb)
            meddle = self._meddlers.pop(verb, None)
            if meddle is not None:
                await meddle()
            if verb in self._failures:
                raise self._failures.pop(verb)
            arrives = self._cuts.pop(verb, None)
            if arrives is None:
                return await ask(*arguments, **options)
            if arrives:
                await ask(*arguments, **options)
            raise StoreUnavailable(f"{verb}: the line is cut")

        return call


L = TypeVar("L", bound=Line)


@dataclass(slots=True)
class Bench:
    """An engine, and how tests speak to it."""

    engine: Engine
    #: The store itself, past the line.
    store: Store
    line: Line
    #: The store's clock, and the one of the host that the engine runs on.
    clock: ManualClock
    host_clock: ManualClock
    events: list[Event] = field(default_factory=list)

    def told(self, kind: type[E]) -> list[E]:
        """Give the events of a kind, and forget all events."""
        told: list[E] = [event for event in self.events if isinstance(event, kind)]
        self.events.clear()
        return told

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

    async def rings_at(self, place: Topic, act: Coroutine[Any, Any, object]) -> bool:
        """Say whether something rings for whoever listens in a place."""
        with self.engine.broker.subscribe((place,)) as subscription:
            await act
            return bool(await subscription.wait(timedelta(0)))


def in_virtual_time(
    act: Callable[[Engine, L], Awaitable[None]], line_type: type[L], broker_type: type[InStoreBroker] = InStoreBroker
) -> None:
    """Let something happen in virtual time, on an engine at the end of a line, by whose clock its store goes."""

    async def play() -> None:
        loop = asyncio.get_running_loop()
        clock = lambda: BASE + timedelta(seconds=loop.time())  # noqa: E731
        store = await SqliteStore.open(":memory:", clock=clock)
        line = line_type(store)
        broker = broker_type(cast("Store", line))
        try:
            await act(Engine(cast("Store", line), broker, clock=clock, rng=lambda: 0.5), line)
        finally:
            await broker.close()
            await store.close()

    run(play(), seed=1)


@asynccontextmanager
async def bench_in_memory() -> AsyncIterator[Bench]:
    clock, host_clock = ManualClock(), ManualClock()
    store = await SqliteStore.open(":memory:", clock=clock)
    line = Line(store)
    seen = cast("Store", line)
    broker = InStoreBroker(seen)
    engine = Engine(seen, broker, clock=host_clock, rng=lambda: 0.5, steady=clock.steady)
    bench = Bench(engine, store, line, clock, host_clock)
    engine.telemetry.listen(bench.events.append)
    # A scheduler has looked at the store's clock when anything begins.
    await engine.upkeep.timetable()
    line.calls.clear()
    try:
        yield bench
    finally:
        await broker.close()
        await store.close()
