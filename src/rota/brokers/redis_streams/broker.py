"""The broker on Redis Streams: dispatches ids to workers while Redis is up; otherwise workers claim from the store.

The broker in the store is used too: for listeners to the store's own changes, and for workers while Redis is down or no
dispatcher fills the streams. A task runs every second: it registers the lanes that are read here and checks the server.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from typing import Any, Final, Self

from rota.backoff import JitteredBackoff
from rota.brokers.in_store import InStoreBroker
from rota.brokers.redis_streams.connection import Observe, RedisConnection
from rota.brokers.redis_streams.dispatch import StreamDispatch
from rota.brokers.redis_streams.keys import StreamKeys
from rota.brokers.redis_streams.location import location_of, warn_of_plain_text
from rota.brokers.redis_streams.rates import RedisRates
from rota.brokers.redis_streams.reader import StreamReader
from rota.brokers.redis_streams.subscription import RedisSubscription
from rota.core.cluster import Rank
from rota.core.errors import BrokerUnavailable
from rota.core.ids import JobId
from rota.ports.broker import Subscription
from rota.ports.store import Store
from rota.ports.wakeup import ANY_CHANGE, EVERY_QUEUE, TIMETABLE, Wake
from rota.supervision import supervised

CHECK_SECONDS: Final = 1.0
#: How long to wait for the server when a process starts.
CONNECT_SECONDS: Final = 2.0


def _ignore(_operation: str, _seconds: float) -> None:
    """Observe nothing."""


class RedisStreamsBroker:
    """All verbs of `rota.ports.broker.Broker` on Redis Streams."""

    def __init__(self, store: Store, url: str, *, stream: str, group: str, observe: Observe = _ignore) -> None:
        location = location_of(url)
        warn_of_plain_text(location)
        keys = StreamKeys(stream)
        self._in_store = InStoreBroker(store)
        self._redis = RedisConnection(location, keys.probe, observe)
        self._subscription = RedisSubscription(self._redis, keys.channel, self._on_work)
        self._reader = StreamReader(self._redis, keys, group, self._subscription, is_cluster=location.is_cluster)
        self.dispatch_queue = StreamDispatch(self._redis, keys, group, self._subscription)
        self.rate_counter = RedisRates(self._redis, keys)
        self._listeners: list[StreamListener] = []
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def open(
        cls, store: Store, url: str, *, stream: str = "jobs", group: str = "workers", observe: Observe = _ignore
    ) -> Self:
        """Open the broker, whether or not the server is up."""
        broker = cls(store, url, stream=stream, group=group, observe=observe)
        with suppress(TimeoutError):
            async with asyncio.timeout(CONNECT_SECONDS):
                await broker._redis.check()
        loop = asyncio.get_running_loop()
        parts = (("the listener on Redis", broker._subscription.listen), ("the check of Redis", broker._check))
        broker._tasks = [loop.create_task(supervised(name, part)) for name, part in parts]
        return broker

    @property
    def is_up(self) -> bool:
        return self._redis.is_up

    @property
    def _is_dispatching(self) -> bool:
        """Whether jobs come through Redis: the server is up, and a dispatcher fills the streams."""
        return self._redis.is_up and self._subscription.has_dispatcher

    def subscribe(
        self,
        topics: Wake,
        types: Collection[str] | None = None,
        rank: Rank | None = None,  # noqa: ARG002 - no two workers get the same id
    ) -> AbstractContextManager[Subscription]:
        """Listen for the store's own changes, or for jobs."""
        if TIMETABLE in topics or EVERY_QUEUE in topics:
            return self._in_store.subscribe(topics)
        return self._listen_for_jobs([topic for topic in topics if isinstance(topic, str)], types or ())

    @contextmanager
    def _listen_for_jobs(self, queues: Collection[str], types: Collection[str]) -> Iterator[Subscription]:
        with self._in_store.subscribe(queues) as in_store:
            listener = StreamListener(queues, types, in_store, lambda: self._is_dispatching)
            self._listeners.append(listener)
            try:
                yield listener
            finally:
                self._listeners.remove(listener)

    @property
    def has_subscribers(self) -> bool:
        """True: listeners in other processes are not known."""
        return True

    async def announce(self, wake: Wake) -> None:
        """Wake the listeners of this process: the dispatcher notifies the others."""
        await self._in_store.announce(wake)

    async def take(self, queues: Collection[str], types: Collection[str] | None, limit: int) -> Sequence[JobId] | None:
        """Take ids; None if the caller is to claim from the store."""
        return await self._reader.take(queues, types, limit)

    async def hand_back(self, ids: Sequence[JobId]) -> None:
        """Keep ids for the next `take`."""
        self._reader.hand_back(ids)

    async def acknowledge(self, ids: Sequence[JobId]) -> None:
        """Acknowledge ids, in the background."""
        self._reader.acknowledge(ids)

    async def close(self) -> None:
        await self._reader.close()
        while running := [task for task in self._tasks if not task.done()]:
            # Repeated: the driver may swallow a cancellation on Python 3.11.
            for task in running:
                task.cancel()
            await asyncio.wait(running, timeout=0.1)
        await self._subscription.close()
        await self._redis.close()
        await self._in_store.close()

    def _on_work(self, queue: str | None) -> None:
        """Wake the listeners to a queue, or all if the queue is unknown."""
        for listener in self._listeners:
            if queue is None or queue in listener.queues:
                listener.wake()

    async def _check(self) -> None:
        backoff = JitteredBackoff(random.random, longest=CHECK_SECONDS)
        was_dispatching = False
        while True:
            has_changed = await self._redis.check()
            with suppress(BrokerUnavailable):
                for listener in self._listeners:
                    self._reader.keep_reading(listener.queues, listener.types)
                await self._reader.register()
            if has_changed or self._is_dispatching != was_dispatching:
                # Listeners must wait on the other broker from now on.
                was_dispatching = self._is_dispatching
                self._on_work(None)
            if self._redis.is_up:
                backoff.reset()
                await asyncio.sleep(CHECK_SECONDS)
            else:
                await asyncio.sleep(backoff.next())


class StreamListener:
    """Waits for jobs in some queues: on Redis while jobs are dispatched through it, else on the store."""

    def __init__(
        self,
        queues: Collection[str],
        types: Collection[str],
        in_store: Subscription,
        is_dispatching: Callable[[], bool],
    ) -> None:
        self.queues = frozenset(queues)
        self.types = frozenset(types)
        self._in_store = in_store
        self._is_dispatching = is_dispatching
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """End the wait, or the next one."""
        self._woken.set()

    async def wait(self, at_most: timedelta) -> Wake:
        """Wait until woken, for at most so long; anything may have changed then."""
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._woken.wait())]
        if not self._is_dispatching():
            waits.append(asyncio.ensure_future(self._in_store.wait(at_most)))
        try:
            woken, _ = await asyncio.wait(waits, timeout=at_most.total_seconds(), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        self._woken.clear()
        return ANY_CHANGE if woken else ()
