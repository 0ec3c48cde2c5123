"""No broker but the store: within a process an announcement rings a bell, between processes the store's change does.

One task watches the store for changes by other processes while anyone listens, and rings for whom they concern, as far
as the store can tell; where it tells of a single job, first for the one whose turn it is, see `precedence`. What else
comes meanwhile rings for all. When nobody listens, nobody watches. If the watch fails (the store is away), listeners
wake up as if something had changed, ask the store, and learn it from there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Final

from rota.core.errors import RotaError
from rota.core.identity import JobId
from rota.core.precedence import Rank, seconds_behind
from rota.ports.broker import Attendance, Line
from rota.ports.places import ANYWHERE, EVERY_QUEUE, TIMETABLE, number_of, without_number
from rota.ports.store import Store
from rota.supervision import supervised

#: How long one look out for changes lasts; only bounds how soon the watch ends when nobody listens any more.
WATCH: Final = timedelta(seconds=1)


class Bell:
    """Rings for one listener."""

    def __init__(self, queues: Collection[str], rank: Rank | None = None) -> None:
        self.queues = frozenset(queues)
        self.rank = rank
        self._is_rung = False
        self._waiting: asyncio.Future[None] | None = None
        self._told: set[str] = set()
        self._later: set[str] = set()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def ring(self, places: Collection[str]) -> None:
        """End the wait, or the next one. From any thread."""
        if threading.get_ident() == self._thread:
            self._hear(places)
            return
        # Closed: nobody listens there any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._hear, places)

    def ring_later(self, places: Collection[str], seconds: float) -> None:
        """Ring after a while; what comes before that shares it. Always from one and the same thread."""
        if not self._later:
            asyncio.get_running_loop().call_later(seconds, self._ring_late)
        self._later.update(places)

    def _ring_late(self) -> None:
        places, self._later = self._later, set()
        self.ring(places)

    def _hear(self, places: Collection[str]) -> None:
        heard = {place for place in places if place in self.queues or place == EVERY_QUEUE}
        self._told |= heard or set(places)
        self._is_rung = True
        if self._waiting is not None:
            end(self._waiting)

    def hears(self, queues: Collection[str]) -> bool:
        """Whether an announcement for some queues is meant for this listener."""
        if not self.queues.isdisjoint(queues):
            return True
        # Whoever listens to every queue hears of each, and what may be in any is for whoever listens to one.
        return (EVERY_QUEUE in self.queues and any(queue != TIMETABLE for queue in queues)) or (
            EVERY_QUEUE in queues and self.queues != {TIMETABLE}
        )

    async def wait(self, at_most: timedelta) -> Collection[str]:
        """Wait for the bell, at most for a while, and say what it was rung for."""
        # By hand: an event and a timeout take longer than to ask for the job. Nor wait_for, which on Python 3.11
        # swallows a cancellation that arrives together with the bell.
        if not self._is_rung:
            waiting = self._waiting = self._loop.create_future()
            timer = self._loop.call_later(at_most.total_seconds(), end, waiting)
            try:
                await waiting
            finally:
                timer.cancel()
                # Whoever was called off may be slow to leave, and another wait by then.
                if self._waiting is waiting:
                    self._waiting = None
        self._is_rung = False
        told, self._told = self._told, set()
        return told


def end(waiting: asyncio.Future[None]) -> None:
    """End a wait, unless it has ended."""
    if not waiting.done():
        waiting.set_result(None)


class InStoreBroker:
    """Brings workers and work together through the store alone."""

    #: Nothing is handed over: workers ask the store.
    line: Line | None = None
    is_up = True

    def __init__(self, store: Store) -> None:
        self._store = store
        self._bells: list[Bell] = []
        self._watch: asyncio.Task[None] | None = None

    @property
    def is_attended(self) -> bool:
        """Whether somebody listens in this process; others see the store change."""
        return bool(self._bells)

    @contextmanager
    def attend(
        self,
        queues: Collection[str],
        types: Collection[str] | None = None,  # noqa: ARG002 - the store says nothing of types
        rank: Rank | None = None,
    ) -> Iterator[Attendance]:
        """Begin to listen for work in these queues."""
        bell = Bell(queues, rank)
        self._bells.append(bell)
        if EVERY_QUEUE in queues:
            # Whoever wants some of it claims, and is told from then on; this one only wants to know.
            self._store.hear_work()
        if self._watch is None or self._watch.done():
            watching = supervised("the watch of the store", self._watch_store)
            self._watch = asyncio.get_running_loop().create_task(watching)
        try:
            yield bell
        finally:
            self._bells.remove(bell)

    async def announce(self, queues: Collection[str]) -> None:
        """Ring for whoever listens to one of these queues. From any thread, and without suspending."""
        # A copy: on its own thread somebody may leave meanwhile, and another would be passed over.
        for bell in tuple(self._bells):
            if bell.hears(queues):
                bell.ring(queues)

    async def take(
        self,
        queues: Collection[str],  # noqa: ARG002 - hands over no ids
        types: Collection[str] | None,  # noqa: ARG002
        limit: int,  # noqa: ARG002
    ) -> Sequence[JobId] | None:
        """Have the store asked."""
        return None

    async def hand_back(self, ids: Sequence[JobId]) -> None:
        """Nothing was handed over."""

    async def acknowledge(self, ids: Sequence[JobId]) -> None:
        """Nothing was handed over, so there is nothing to let go of."""

    async def close(self) -> None:
        """Stop watching."""
        if self._watch is not None:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch

    async def _watch_store(self) -> None:
        while self._bells:
            try:
                places = await self._store.watch(WATCH, self._tell)
            except RotaError:
                places = ANYWHERE
                await asyncio.sleep(WATCH.total_seconds())
            if places:
                self._tell(places)

    def _tell(self, words: Collection[str]) -> None:
        """Ring for what the store tells: at once, or later for those who let another go first."""
        number, places = number_of(words), without_number(words)
        for bell in tuple(self._bells):
            if not bell.hears(places):
                continue
            behind = seconds_behind(bell.rank, number)
            if behind:
                # Who has left by then has been asking the store since, or will.
                bell.ring_later(places, behind)
            else:
                bell.ring(places)
