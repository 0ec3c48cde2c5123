"""The broker on Redis Streams: hands ids over while it can, and leaves workers to the store while it cannot.

Behind it stands the broker in the store, for whoever listens to the store's own changes, and for workers while Redis is
away or nobody fills the lines. A task knocks every second: it says which lanes are read here, and finds out whether the
server is there.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from typing import Any, Final, Self

from rota.brokers.in_store import InStoreBroker
from rota.brokers.redis_streams.ear import Ear
from rota.brokers.redis_streams.keys import Keys
from rota.brokers.redis_streams.line import StreamLine
from rota.brokers.redis_streams.location import location_of, warn_of_plain_text
from rota.brokers.redis_streams.reader import Reader
from rota.brokers.redis_streams.server import Observe, Server
from rota.core.errors import BrokerUnavailable
from rota.core.identity import JobId
from rota.core.patience import Patience
from rota.core.precedence import Rank
from rota.ports.broker import Attendance
from rota.ports.places import ANYWHERE, EVERY_QUEUE, TIMETABLE
from rota.ports.store import Store
from rota.supervision import supervised

PACE_SECONDS: Final = 1.0
#: How long to try to reach the server when a process starts; it goes on without.
BEGIN_SECONDS: Final = 2.0


def _nobody(_operation: str, _seconds: float) -> None:
    """Let a call go unobserved."""


class RedisStreamsBroker:
    """All verbs of `rota.ports.broker.Broker` on Redis Streams."""

    def __init__(self, store: Store, url: str, *, stream: str, group: str, observe: Observe = _nobody) -> None:
        location = location_of(url)
        warn_of_plain_text(location)
        keys = Keys(stream)
        self._in_store = InStoreBroker(store)
        self._server = Server(location, keys.probe, observe)
        self._ear = Ear(self._server, keys.bell, self._on_work)
        self._reader = Reader(self._server, keys, group, self._ear, is_cluster=location.is_cluster)
        self.line = StreamLine(self._server, keys, group, self._ear)
        self._listeners: list[Listener] = []
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def open(
        cls, store: Store, url: str, *, stream: str = "jobs", group: str = "workers", observe: Observe = _nobody
    ) -> Self:
        """Begin, whether or not the server is there."""
        broker = cls(store, url, stream=stream, group=group, observe=observe)
        with suppress(TimeoutError):
            async with asyncio.timeout(BEGIN_SECONDS):
                await broker._server.heal()
        loop = asyncio.get_running_loop()
        parts = (("the listener on Redis", broker._ear.listen), ("the check of Redis", broker._knock))
        broker._tasks = [loop.create_task(supervised(name, part)) for name, part in parts]
        return broker

    @property
    def is_up(self) -> bool:
        """Whether the server answers."""
        return self._server.is_up

    @property
    def _is_carrying(self) -> bool:
        """Whether jobs come to workers this way: the server is there, and somebody fills the lines."""
        return self._server.is_up and self._ear.is_tended

    def attend(
        self,
        queues: Collection[str],
        types: Collection[str] | None = None,
        rank: Rank | None = None,  # noqa: ARG002 - no two are handed the same job
    ) -> AbstractContextManager[Attendance]:
        """Begin to listen: for the store's own changes, or for work."""
        if TIMETABLE in queues or EVERY_QUEUE in queues:
            return self._in_store.attend(queues)
        return self._attend_work(queues, types or ())

    @contextmanager
    def _attend_work(self, queues: Collection[str], types: Collection[str]) -> Iterator[Attendance]:
        with self._in_store.attend(queues) as in_store:
            listener = Listener(queues, types, in_store, lambda: self._is_carrying)
            self._listeners.append(listener)
            try:
                yield listener
            finally:
                self._listeners.remove(listener)

    @property
    def is_attended(self) -> bool:
        """Always: who listens in other processes is not known."""
        return True

    async def announce(self, queues: Collection[str]) -> None:
        """Tell whoever listens in this process: the dispatcher tells the others."""
        await self._in_store.announce(queues)

    async def take(self, queues: Collection[str], types: Collection[str] | None, limit: int) -> Sequence[JobId] | None:
        """Hand over ids, or have the store asked."""
        return await self._reader.take(queues, types, limit)

    async def hand_back(self, ids: Sequence[JobId]) -> None:
        """Keep ids for the next who asks."""
        self._reader.hand_back(ids)

    async def acknowledge(self, ids: Sequence[JobId]) -> None:
        """Let go of ids, soon."""
        self._reader.acknowledge(ids)

    async def close(self) -> None:
        """Let go of everything."""
        await self._reader.close()
        while running := [task for task in self._tasks if not task.done()]:
            # Again and again: the driver may swallow a cancellation on Python 3.11.
            for task in running:
                task.cancel()
            await asyncio.wait(running, timeout=0.1)
        await self._ear.close()
        await self._server.close()
        await self._in_store.close()

    def _on_work(self, queue: str | None) -> None:
        """Ring for whoever listens to a queue; for everybody if nobody knows which."""
        for listener in self._listeners:
            if queue is None or queue in listener.queues:
                listener.ring()

    async def _knock(self) -> None:
        patience = Patience(random.random, longest=PACE_SECONDS)
        was_carrying = False
        while True:
            is_news = await self._server.heal()
            with suppress(BrokerUnavailable):
                for listener in self._listeners:
                    self._reader.attending(listener.queues, listener.types)
                await self._reader.greet()
            if is_news or self._is_carrying != was_carrying:
                # Whoever waits must wait elsewhere from now on.
                was_carrying = self._is_carrying
                self._on_work(None)
            if self._server.is_up:
                patience.reset()
                await asyncio.sleep(PACE_SECONDS)
            else:
                await asyncio.sleep(patience.next())


class Listener:
    """Waits for work in some queues: at the streams while they carry it, at the store while they do not."""

    def __init__(
        self, queues: Collection[str], types: Collection[str], in_store: Attendance, is_carrying: Callable[[], bool]
    ) -> None:
        self.queues = frozenset(queues)
        self.types = frozenset(types)
        self._in_store = in_store
        self._is_carrying = is_carrying
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """End the wait, or the next one."""
        self._rung.set()

    async def wait(self, at_most: timedelta) -> Collection[str]:
        """Wait for the bell that counts now, at most for a while; if it rings, it may be for anything."""
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._rung.wait())]
        if not self._is_carrying():
            waits.append(asyncio.ensure_future(self._in_store.wait(at_most)))
        try:
            rung, _ = await asyncio.wait(waits, timeout=at_most.total_seconds(), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        self._rung.clear()
        return ANYWHERE if rung else ()
