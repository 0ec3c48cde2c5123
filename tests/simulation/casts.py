"""Who plays which part: the models, or the real loops where they can run in here.

`MODELS` plays everything with the thin stand-ins. `ENGINE` puts the real engine and the real scheduler on the stage:
schedulers run `rota.scheduler.Scheduler`, workers claim and settle through `rota.engine.Engine`, clients submit and
operate through it. The real worker is not among them yet: it runs its handlers on threads, and there are none here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from rota.brokers.in_store import InStoreBroker
from rota.core.identity import JobId
from rota.core.job import Job
from rota.core.schedule import Schedule
from rota.core.submission import NewJob
from rota.engine import Engine
from rota.ports.faces import Actor
from rota.ports.store import Inserted, Store
from rota.scheduler import Scheduler
from simulation.models.client import Act, ClientModel, Notebook, Submission, Wish
from simulation.models.scheduler import SchedulerHabits, SchedulerModel
from simulation.models.source import StoreSource
from simulation.models.stage import Stage
from simulation.models.worker import WorkerHabits, WorkerModel

Playing = Coroutine[Any, Any, None]
Share = tuple[Notebook, tuple[Submission, ...], tuple[Act, ...], tuple[Schedule, ...]]

_OPERATOR: Final = Actor("operator", "simulation")


@dataclass(frozen=True, slots=True)
class Cast:
    """One coroutine for each part; each is handed its surroundings and what it is like."""

    name: str
    worker: Callable[[Stage, WorkerHabits], Playing]
    scheduler: Callable[[Stage, SchedulerHabits], Playing]
    client: Callable[[Stage, Share], Playing]


MODELS: Final = Cast(
    name="models",
    worker=lambda stage, habits: WorkerModel(stage, habits, StoreSource(stage)).run(),
    scheduler=lambda stage, habits: SchedulerModel(stage, habits).run(),
    client=lambda stage, share: ClientModel(stage, *share).run(),
)


# The real engine


class _Unwatched:
    """The store without its watch: in here processes share no change counter, so everybody looks again now and then."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def __getattr__(self, verb: str) -> Any:  # noqa: ANN401 - as the store does
        return getattr(self._stage.store, verb)

    async def watch(self, at_most: timedelta) -> bool:
        """Let the time pass; say now and then that something may have changed."""
        await asyncio.sleep(at_most.total_seconds() * (1 + 2 * self._stage.dice.random()))
        return self._stage.dice.random() < 1 / 3


def _engine(stage: Stage) -> Engine:
    store: Store = _Unwatched(stage)
    return Engine(store, InStoreBroker(store), clock=stage.host.clock, dice=stage.dice.random)


async def _schedule(stage: Stage, habits: SchedulerHabits) -> None:
    """Run the real scheduler until asked to stop."""
    running = asyncio.create_task(Scheduler(_engine(stage), retention=habits.retention).run(), name="scheduler")
    stopping = asyncio.create_task(stage.host.stopping.wait(), name="stopping")
    await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()
    running.cancel()


class _EngineClient(ClientModel):
    """A client that asks the engine, as the API does."""

    def __init__(self, stage: Stage, share: Share) -> None:
        super().__init__(stage, *share)
        self._engine = _engine(stage)

    async def _insert(self, job: NewJob) -> Sequence[Inserted]:
        return await self._engine.submit([job])

    async def _cancel(self, job_id: JobId) -> None:
        await self._engine.cancel([job_id], _OPERATOR)

    async def _decree(self, wish: Wish, job: Job) -> None:
        act = self._engine.jobs.retry if wish is Wish.RETRY else self._engine.jobs.run_now
        await act([job.id], _OPERATOR)


ENGINE: Final = Cast(
    name="engine",
    worker=lambda stage, habits: WorkerModel(stage, habits, _engine(stage)).run(),
    scheduler=_schedule,
    client=lambda stage, share: _EngineClient(stage, share).run(),
)

CASTS: Final = {cast.name: cast for cast in (MODELS, ENGINE)}
