"""Hearing of work and of room: one subscription for a whole process. A hint, never relied upon.

Whoever dispatches also says every second that it does. A reader that has not heard it for a while takes jobs from the
store itself: nobody may be filling its lines.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from redis.asyncio import Redis

from rota.brokers.redis_streams.server import AWAY, Server
from rota.core.patience import Patience

#: How the messages begin: there is work in a queue, there is room in some line, somebody dispatches.
WORK: Final = "w"
ROOM: Final = "r"
PULSE: Final = "p"
#: For how long what was heard last counts, and after which silence we listen anew.
TENDED_SECONDS: Final = 3.0
SILENCE_SECONDS: Final = 6.0


class Ear:
    """Listens until it is cancelled."""

    def __init__(self, server: Server, channel: str, on_work: Callable[[str | None], None]) -> None:
        self._server = server
        self._channel = channel
        self._on_work = on_work
        self._heard_at = -TENDED_SECONDS
        self.room = asyncio.Event()
        self._closing: set[asyncio.Future[None]] = set()

    @property
    def is_tended(self) -> bool:
        """Whether somebody fills the lines, as far as we have heard."""
        return asyncio.get_running_loop().time() - self._heard_at < TENDED_SECONDS

    async def listen(self) -> None:
        """Listen, and begin anew whenever the connection is lost or says nothing."""
        patience = Patience(random.random, longest=1.0)
        while True:
            if self._server.is_up:
                with suppress(*AWAY):
                    await self._listen_once(patience)
            await asyncio.sleep(patience.next())

    async def _listen_once(self, patience: Patience) -> None:
        client = self._server.hearing()
        listener: Any = client.pubsub(ignore_subscribe_messages=True)
        loop = asyncio.get_running_loop()
        try:
            await listener.subscribe(self._channel)
            # What was said before we listened was not heard.
            self._on_work(None)
            self.room.set()
            last = loop.time()
            while loop.time() - last < SILENCE_SECONDS:
                message = await listener.get_message(timeout=1.0)
                if message is not None:
                    last = loop.time()
                    patience.reset()
                    self._hear(str(message["data"]))
        finally:
            # In a task of its own: whoever is cancelled while it lets go would leave the connection behind.
            closing = asyncio.ensure_future(self._let_go(listener, client))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            await asyncio.shield(closing)

    async def _let_go(self, listener: Any, client: Redis) -> None:  # noqa: ANN401 - redis-py leaves it untyped
        with suppress(*AWAY):
            await listener.aclose()
        with suppress(*AWAY):
            await self._server.heard(client)

    async def close(self) -> None:
        """Wait until what was listened with is let go."""
        if self._closing:
            await asyncio.wait(self._closing)

    def _hear(self, text: str) -> None:
        kind, rest = text[:1], text[1:]
        if kind == ROOM:
            self.room.set()
            return
        self._heard_at = asyncio.get_running_loop().time()
        if kind == WORK:
            self._on_work(rest)
