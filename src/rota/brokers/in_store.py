"""The broker without a server: workers are woken by the store's notifications and claim from the store.

Within a process an announcement wakes the listeners directly. Changes by other processes come from the store: one task
watches it while there are listeners, and wakes those whose queues changed, as far as the store reports it. If a single
job is reported, one worker is woken before the others, see `rota.stagger`; other changes wake all at once. If the watch
fails (the store is unavailable), listeners wake up as if something had changed and see the error when they claim.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Final

from rota.core.cluster import Rank
from rota.core.errors import RotaError
from rota.core.ids import JobId
from rota.ports.broker import DispatchQueue, Subscription
from rota.ports.rates import RateCounter
from rota.ports.store import Store
from rota.ports.wakeup import ANY_CHANGE, EVERY_QUEUE, TIMETABLE, Topic, Wake, single_job_of, without_number
from rota.stagger import stagger_seconds
from rota.supervision import supervised

#: How long one call of the watch lasts; it only bounds how soon the watch ends after the last listener left.
WATCH: Final = timedelta(seconds=1)


class QueueListener:
    """One listener for work in some queues: waits until it is woken."""

    def __init__(self, topics: Wake, rank: Rank | None = None) -> None:
        self.topics = frozenset(topics)
        self.rank = rank
        self._is_woken = False
        self._waiting: asyncio.Future[None] | None = None
        self._woken: set[Topic] = set()
        self._delayed: set[Topic] = set()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def wake(self, wake: Wake) -> None:
        """End the wait, or the next one. From any thread."""
        if threading.get_ident() == self._thread:
            self._wake_here(wake)
            return
        # Closed: that listener is gone.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wake_here, wake)

    def wake_later(self, wake: Wake, seconds: float) -> None:
        """Wake after a delay, together with what comes before it is over. Always called on one thread."""
        if not self._delayed:
            asyncio.get_running_loop().call_later(seconds, self._wake_delayed)
        self._delayed.update(wake)

    def _wake_delayed(self) -> None:
        wake, self._delayed = self._delayed, set()
        self.wake(wake)

    def _wake_here(self, wake: Wake) -> None:
        ours = {topic for topic in wake if topic in self.topics or topic is EVERY_QUEUE}
        self._woken |= ours or set(wake)
        self._is_woken = True
        if self._waiting is not None:
            _end(self._waiting)

    def hears(self, wake: Wake) -> bool:
        """Whether a wake-up is meant for this listener."""
        if not self.topics.isdisjoint(wake):
            return True
        # A listener to every queue is woken for each; a change that may be in any queue wakes every listener to one.
        return (EVERY_QUEUE in self.topics and any(topic is not TIMETABLE for topic in wake)) or (
            EVERY_QUEUE in wake and self.topics != {TIMETABLE}
        )

    async def wait(self, at_most: timedelta) -> Wake:
        """Wait until woken, for at most so long, and return the topics that changed."""
        # A bare future: an event and a timeout take longer than the claim. Not wait_for, which on Python 3.11 swallows
        # a cancellation that arrives together with the wake-up.
        if not self._is_woken:
            waiting = self._waiting = self._loop.create_future()
            timer = self._loop.call_later(at_most.total_seconds(), _end, waiting)
            try:
                await waiting
            finally:
                timer.cancel()
                # After a cancellation another caller may wait by now.
                if self._waiting is waiting:
                    self._waiting = None
        self._is_woken = False
        woken, self._woken = self._woken, set()
        return woken


def _end(waiting: asyncio.Future[None]) -> None:
    """End a wait, unless it has ended."""
    if not waiting.done():
        waiting.set_result(None)


class InStoreBroker:
    """All verbs of `rota.ports.broker.Broker` through the store alone."""

    #: No ids are dispatched: workers claim from the store.
    dispatch_queue: DispatchQueue | None = None
    rate_counter: RateCounter | None = None
    is_up = True

    def __init__(self, store: Store) -> None:
        self._store = store
        self._listeners: list[QueueListener] = []
        self._watch: asyncio.Task[None] | None = None

    @property
    def has_subscribers(self) -> bool:
        """Whether this process has listeners; other processes are notified by the store."""
        return bool(self._listeners)

    @contextmanager
    def subscribe(
        self,
        topics: Wake,
        types: Collection[str] | None = None,  # noqa: ARG002 - the store says nothing of types
        rank: Rank | None = None,
    ) -> Iterator[Subscription]:
        listener = QueueListener(topics, rank)
        self._listeners.append(listener)
        if EVERY_QUEUE in topics:
            # A claim makes the store notify the claimer; this listener claims nothing.
            self._store.watch_for_work()
        if self._watch is None or self._watch.done():
            watching = supervised("the watch of the store", self._watch_store)
            self._watch = asyncio.get_running_loop().create_task(watching)
        try:
            yield listener
        finally:
            self._listeners.remove(listener)

    async def announce(self, wake: Wake) -> None:
        """Wake the listeners to these topics. From any thread, and without suspending."""
        # A copy: a listener may leave on its own thread meanwhile, and the next would be skipped.
        for listener in tuple(self._listeners):
            if listener.hears(wake):
                listener.wake(wake)

    async def take(
        self,
        queues: Collection[str],  # noqa: ARG002 - dispatches no ids
        types: Collection[str] | None,  # noqa: ARG002
        limit: int,  # noqa: ARG002
    ) -> Sequence[JobId] | None:
        """Return None: the caller claims from the store."""
        return None

    async def hand_back(self, ids: Sequence[JobId]) -> None:
        """Do nothing: no ids are dispatched."""

    async def acknowledge(self, ids: Sequence[JobId]) -> None:
        """Do nothing: no ids are dispatched."""

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch

    async def _watch_store(self) -> None:
        while self._listeners:
            wake: Wake
            try:
                wake = await self._store.watch(WATCH, self._on_change)
            except RotaError:
                wake = ANY_CHANGE
                await asyncio.sleep(WATCH.total_seconds())
            if wake:
                self._on_change(wake)

    def _on_change(self, wake: Wake) -> None:
        """Wake listeners for a change in the store: at once, or later those behind the first in turn."""
        number, topics = single_job_of(wake), without_number(wake)
        for listener in tuple(self._listeners):
            if not listener.hears(topics):
                continue
            behind = stagger_seconds(listener.rank, number)
            if behind:
                # A listener that has left by then claims anyway.
                listener.wake_later(topics, behind)
            else:
                listener.wake(topics)
