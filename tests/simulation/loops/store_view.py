"""The store as a real loop uses it in the simulation: with failpoints and delays after its answers.

A loop reads, decides and writes. Between two of these a process may crash or be delayed, and that is where races
are: so the failpoints and the delays come after the answer of a read or a write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from typing import Any, Final, cast

from rota.brokers.in_store import InStoreBroker
from rota.engine import Engine
from rota.ports.store import Store
from rota.ports.wakeup import ANY_CHANGE, Wake
from simulation.models.environment import Environment

Points = Mapping[str, str]

#: The failpoints of a scheduler, by the verb whose answer it has got.
SCHEDULER_POINTS: Final[Points] = {
    "lost": "scheduler.lost",
    "settle": "scheduler.reaped",
    "due_schedules": "scheduler.planned",
    "fire": "scheduler.fired",
}
#: Reads from which something is decided at once: sometimes the decision is delayed.
_DECIDED_ON: Final = frozenset({"lost", "expired", "due_schedules", "get"})


class View:
    """The store, failpoints included."""

    def __init__(self, environment: Environment, points: Points) -> None:
        self._environment = environment
        self._points = points

    def __getattr__(self, verb: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        if verb.startswith("_"):
            raise AttributeError(verb)
        ask = getattr(self._environment.store, verb)
        if verb in self._points or verb in _DECIDED_ON:
            ask = self._pointed(ask, self._points.get(verb), is_decided_on=verb in _DECIDED_ON)
        # The next time Python finds it without asking us.
        self.__dict__[verb] = ask
        return cast("Callable[..., Coroutine[Any, Any, Any]]", ask)

    def _pointed(
        self, ask: Callable[..., Coroutine[Any, Any, Any]], point: str | None, *, is_decided_on: bool
    ) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def call(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as the verb does
            answer = await ask(*arguments, **options)
            if answer:
                if point is not None:
                    await self._environment.failpoint(point)
                if is_decided_on:
                    await self._environment.delay_sometimes()
            return answer

        return call

    def watch_for_work(self) -> None:
        """Nothing: the simulation has no notifications."""

    async def watch(self, at_most: timedelta, _heed: object = None) -> Wake:
        """Let the time pass, and sometimes report a change: the simulation has no notifications."""
        await asyncio.sleep(at_most.total_seconds() * (2 + 6 * self._environment.rng.random()))
        return ANY_CHANGE if self._environment.rng.random() < 1 / 2 else ()


def engine_on(environment: Environment, points: Points | None = None) -> Engine:
    """Make an engine with the store, clock and random numbers of a process."""
    store = cast("Store", View(environment, points or {}))
    return Engine(store, InStoreBroker(store), clock=environment.host.clock, rng=environment.rng.random)
