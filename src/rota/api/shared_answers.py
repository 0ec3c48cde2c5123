"""Shared answers: many open tabs of the dashboard cost the store one query for each thing that they show.

After every update of the live stream each tab asks again for what it shows, all of them within some milliseconds. The
first of them asks the store, and the others get its answer. An answer is shared for a second at most, and never beyond
the next update or change of a topic, nor beyond a change that a tab itself has made, so that a user sees the effect of
an action. Only
requests of the dashboard share answers (header `Rota-Client: ui`), and only callers with the same access; programs
always ask the store.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

#: How long an answer is shared at most.
SHARED_SECONDS: Final = 1.0
#: How many different answers are kept.
_MOST: Final = 512

T = TypeVar("T")


class SharedAnswers(Generic[T]):
    """The last answers by access and address."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, tuple[float, asyncio.Future[T]]] = {}

    def forget(self) -> None:
        """Share no earlier answer from now on; requests that already wait for one still get it."""
        self._answers.clear()

    async def get(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """Return the answer that another caller has just got or waits for, or make one."""
        now = time.monotonic()
        known = self._answers.get(key)
        if known is not None and now - known[0] < SHARED_SECONDS:
            try:
                return await asyncio.shield(known[1])
            except asyncio.CancelledError:
                # Either this caller has gone, or the one that asked the store has: then this one asks.
                if not known[1].cancelled():
                    raise
        return await self._make(key, now, make)

    async def _make(self, key: Hashable, now: float, make: Callable[[], Awaitable[T]]) -> T:
        if len(self._answers) >= _MOST:
            self._answers.clear()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        # An error without another caller is nobody's concern.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._answers[key] = (now, future)
        try:
            answer = await make()
        except asyncio.CancelledError:
            future.cancel()
            self._drop(key, future)
            raise
        except Exception as error:
            future.set_exception(error)
            self._drop(key, future)
            raise
        future.set_result(answer)
        return answer

    def _drop(self, key: Hashable, future: asyncio.Future[T]) -> None:
        known = self._answers.get(key)
        if known is not None and known[1] is future:
            del self._answers[key]
