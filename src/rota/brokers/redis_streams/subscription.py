"""The pub/sub subscription of a process: messages about jobs for readers and capacity for dispatchers.

Messages are hints: a lost one delays a job, but loses none. A dispatcher also publishes a heartbeat twice a second. A
reader without one for a while claims from the store instead: perhaps no dispatcher fills the streams.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from redis.asyncio import Redis

from rota.backoff import JitteredBackoff
from rota.brokers.redis_streams.connection import UNAVAILABLE_ERRORS, RedisConnection

#: The first letter of a message: jobs in a queue, capacity in some stream, or the heartbeat of a dispatcher.
JOBS: Final = "w"
CAPACITY: Final = "r"
HEARTBEAT: Final = "p"
#: For how long a heartbeat counts, and after which time without messages the subscription is opened anew.
HEARTBEAT_VALID_SECONDS: Final = 3.0
SILENCE_SECONDS: Final = 6.0


class RedisSubscription:
    """Receives messages until it is cancelled; `capacity` is set when dispatchers may add jobs."""

    def __init__(self, redis: RedisConnection, channel: str, on_work: Callable[[str | None], None]) -> None:
        self._redis = redis
        self._channel = channel
        self._on_work = on_work
        self._heartbeat_at = -HEARTBEAT_VALID_SECONDS
        self.capacity = asyncio.Event()
        self._closing: set[asyncio.Future[None]] = set()

    @property
    def has_dispatcher(self) -> bool:
        """Whether a dispatcher fills the streams, according to its last heartbeat."""
        return asyncio.get_running_loop().time() - self._heartbeat_at < HEARTBEAT_VALID_SECONDS

    async def listen(self) -> None:
        """Subscribe, and again whenever the connection is lost or silent."""
        backoff = JitteredBackoff(random.random, longest=1.0)
        while True:
            if self._redis.is_up:
                with suppress(*UNAVAILABLE_ERRORS):
                    await self._listen_once(backoff)
            await asyncio.sleep(backoff.next())

    async def _listen_once(self, backoff: JitteredBackoff) -> None:
        client = self._redis.pubsub_client()
        pubsub: Any = client.pubsub(ignore_subscribe_messages=True)
        loop = asyncio.get_running_loop()
        try:
            await pubsub.subscribe(self._channel)
            # Messages before the subscription were missed.
            self._on_work(None)
            self.capacity.set()
            last = loop.time()
            while loop.time() - last < SILENCE_SECONDS:
                message = await pubsub.get_message(timeout=1.0)
                if message is not None:
                    last = loop.time()
                    backoff.reset()
                    self._on_message(str(message["data"]))
        finally:
            # In a task of its own: a cancellation in the middle would leave the connection open.
            closing = asyncio.ensure_future(self._close(pubsub, client))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            await asyncio.shield(closing)

    async def _close(self, pubsub: Any, client: Redis) -> None:  # noqa: ANN401 - redis-py leaves it untyped
        with suppress(*UNAVAILABLE_ERRORS):
            await pubsub.aclose()
        with suppress(*UNAVAILABLE_ERRORS):
            await self._redis.close_pubsub_client(client)

    async def close(self) -> None:
        """Wait until all connections are closed."""
        if self._closing:
            await asyncio.wait(self._closing)

    def _on_message(self, text: str) -> None:
        kind, rest = text[:1], text[1:]
        if kind == CAPACITY:
            self.capacity.set()
            return
        self._heartbeat_at = asyncio.get_running_loop().time()
        if kind == JOBS:
            self._on_work(rest)
