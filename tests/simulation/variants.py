"""Variants of a world: which code runs as worker, scheduler and client.

`MODELS` are small models of them, which combine the store's verbs in ways that the real loops seldom do. `LOOPS` are
`rota.worker.Worker` on `rota.engine.Engine`, `rota.scheduler.Scheduler`, and clients that use the engine. `HTTP` is
the same over HTTP: workers and clients use `rota.client.Client`, and several hosts serve the API.

The seed decides the variant, so that one number names a run; another one can be chosen by name.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from simulation.loops.api import client_on, serve
from simulation.loops.client import EngineClient, HttpClient, Share
from simulation.loops.scheduler import run_scheduler
from simulation.loops.store_view import engine_on
from simulation.loops.worker import work
from simulation.models.client import ClientModel
from simulation.models.environment import Environment
from simulation.models.scheduler import SchedulerConfig, SchedulerModel
from simulation.models.source import StoreSource
from simulation.models.worker import WorkerConfig, WorkerModel

ProcessMain = Coroutine[Any, Any, None]


@dataclass(frozen=True, slots=True)
class Variant:
    """One function for each role; it gets the environment of the process and its configuration."""

    name: str
    worker: Callable[[Environment, WorkerConfig], ProcessMain]
    scheduler: Callable[[Environment, SchedulerConfig], ProcessMain]
    client: Callable[[Environment, Share], ProcessMain]
    #: Serves the API, if the other processes use it.
    api: Callable[[Environment], ProcessMain] | None = None


def _work_in_process(environment: Environment, config: WorkerConfig) -> ProcessMain:
    engine = engine_on(environment)
    return work(
        environment, config, engine, steps=engine.steps, inputs=engine.inputs, store_time=environment.store_time
    )


def _work_over_http(environment: Environment, config: WorkerConfig) -> ProcessMain:
    client = client_on(environment)
    return work(environment, config, client, steps=client, inputs=client)


MODELS: Final = Variant(
    name="models",
    worker=lambda environment, config: WorkerModel(environment, config, StoreSource(environment)).run(),
    scheduler=lambda environment, config: SchedulerModel(environment, config).run(),
    client=lambda environment, share: ClientModel(environment, *share).run(),
)

LOOPS: Final = Variant(
    name="loops",
    worker=_work_in_process,
    scheduler=run_scheduler,
    client=lambda environment, share: EngineClient(environment, share, engine_on(environment)).run(),
)

HTTP: Final = Variant(
    name="http",
    worker=_work_over_http,
    scheduler=run_scheduler,
    client=lambda environment, share: HttpClient(environment, share, engine_on(environment)).run(),
    api=serve,
)

VARIANTS: Final = {variant.name: variant for variant in (MODELS, LOOPS, HTTP)}

#: The variants of seeds in turn: HTTP costs most and differs least, so one seed of twenty has it.
_TURNS: Final = (MODELS, LOOPS, HTTP, *(MODELS, LOOPS, MODELS) * 5, MODELS, MODELS)


def variant_of(seed: int) -> Variant:
    """Return the variant of a seed, unless another one is chosen."""
    return _TURNS[seed % len(_TURNS)]
