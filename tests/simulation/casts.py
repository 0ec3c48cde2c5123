"""Who plays which part: the models, or Rota's own loops.

`MODELS` plays everything with the thin stand-ins; they combine the store's verbs in ways that the real loops seldom do.
`LOOPS` puts the real ones on the stage: `rota.worker.Worker` on `rota.engine.Engine`, `rota.scheduler.Scheduler`, and
clients that submit and operate through the engine. `HTTP` is the same at a distance: workers and clients know the store
only through `rota.client.Client` and the real API, of which there are several, and each may die.

A seed has its cast, so that one number names a run; a cast can be asked for by name all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from simulation.loops.api import client_on, serve
from simulation.loops.client import EngineClient, HttpClient, Share
from simulation.loops.scheduler import keep_time
from simulation.loops.view import engine_on
from simulation.loops.worker import work
from simulation.models.client import ClientModel
from simulation.models.scheduler import SchedulerHabits, SchedulerModel
from simulation.models.source import StoreSource
from simulation.models.stage import Stage
from simulation.models.worker import WorkerHabits, WorkerModel

Playing = Coroutine[Any, Any, None]


@dataclass(frozen=True, slots=True)
class Cast:
    """One coroutine for each part; each is handed its surroundings and what it is like."""

    name: str
    worker: Callable[[Stage, WorkerHabits], Playing]
    scheduler: Callable[[Stage, SchedulerHabits], Playing]
    client: Callable[[Stage, Share], Playing]
    #: Who serves the API, if the others reach the store through one.
    api: Callable[[Stage], Playing] | None = None


def _work_in_process(stage: Stage, habits: WorkerHabits) -> Playing:
    engine = engine_on(stage)
    return work(stage, habits, engine, steps=engine.steps, inputs=engine.inputs, store_time=stage.store_time)


def _work_over_http(stage: Stage, habits: WorkerHabits) -> Playing:
    client = client_on(stage)
    return work(stage, habits, client, steps=client, inputs=client)


MODELS: Final = Cast(
    name="models",
    worker=lambda stage, habits: WorkerModel(stage, habits, StoreSource(stage)).run(),
    scheduler=lambda stage, habits: SchedulerModel(stage, habits).run(),
    client=lambda stage, share: ClientModel(stage, *share).run(),
)

LOOPS: Final = Cast(
    name="loops",
    worker=_work_in_process,
    scheduler=keep_time,
    client=lambda stage, share: EngineClient(stage, share, engine_on(stage)).run(),
)

HTTP: Final = Cast(
    name="http",
    worker=_work_over_http,
    scheduler=keep_time,
    client=lambda stage, share: HttpClient(stage, share, engine_on(stage)).run(),
    api=serve,
)

CASTS: Final = {cast.name: cast for cast in (MODELS, LOOPS, HTTP)}

#: How often each cast plays: HTTP costs most and differs least, so one seed of twenty is its; the models cost least.
_TURNS: Final = (MODELS, LOOPS, HTTP, *(MODELS, LOOPS, MODELS) * 5, MODELS, MODELS)


def cast_of(seed: int) -> Cast:
    """Say who plays a seed, unless somebody else is asked for."""
    return _TURNS[seed % len(_TURNS)]
