"""The store as a real loop sees it from the stage: with failpoints on the way, and processes that dawdle.

A loop reads, decides and writes. Between two of these a process may die or sit for a while, and that is where races
are: so the failpoints and the pauses are put where a read has come back, or a write.
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
from simulation.models.stage import Stage

Points = Mapping[str, str]

#: Where a scheduler comes by, by the verb whose answer it has just got.
SCHEDULER_POINTS: Final[Points] = {
    "lost": "scheduler.lost",
    "settle": "scheduler.reaped",
    "due_schedules": "scheduler.planned",
    "fire": "scheduler.fired",
}
#: Reads on which something is decided at once: now and then the decision takes its time.
_DECIDED_ON: Final = frozenset({"lost", "expired", "due_schedules", "get"})


class View:
    """The store, failpoints included."""

    def __init__(self, stage: Stage, points: Points) -> None:
        self._stage = stage
        self._points = points

    def __getattr__(self, verb: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        if verb.startswith("_"):
            raise AttributeError(verb)
        ask = getattr(self._stage.store, verb)
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
                    await self._stage.reach(point)
                if is_decided_on:
                    await self._stage.dawdle()
            return answer

        return call

    def watch_for_work(self) -> None:
        """Nothing: in here nobody tells."""

    async def watch(self, at_most: timedelta, _heed: object = None) -> Wake:
        """Let the time pass, and say now and then that something may have changed: in here nobody tells."""
        await asyncio.sleep(at_most.total_seconds() * (2 + 6 * self._stage.rng.random()))
        return ANY_CHANGE if self._stage.rng.random() < 1 / 2 else ()


def engine_on(stage: Stage, points: Points | None = None) -> Engine:
    """Make an engine that knows the stage's store, clock and rng."""
    store = cast("Store", View(stage, points or {}))
    return Engine(store, InStoreBroker(store), clock=stage.host.clock, rng=stage.rng.random)
