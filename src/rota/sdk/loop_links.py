"""Links of single event loops: a loop that submits often to a database server gets connections of its own.

Through the portal an async caller pays two switches between threads for each submission. For one loop with many callers
that costs more than half of the throughput on PostgreSQL (docs/explanation/performance-design.md). So a loop that has
submitted `SUBMISSIONS_BEFORE_LINK` times opens a link of its own and submits on its own thread from then on. Loops that
come and go, one for each request, never get that far. A store in a file needs none of this (see `gateway`).

A link ends with its loop: an async generator holds it, which is closed when the loop is shut down properly
(`asyncio.run` does). Until a link is open, and if it cannot be opened, submissions go through the portal.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from rota.batching import Batcher, Serve
from rota.sdk.portal import running_loop

SUBMISSIONS_BEFORE_LINK: Final = 100
#: How long closing waits for another thread's loop to close its link.
CLOSE_SECONDS: Final = 5.0

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Loop = asyncio.AbstractEventLoop


class LoopLink(Generic[Item, Answer]):
    """How often a loop has submitted, and its own batcher once its link is open."""

    def __init__(self) -> None:
        self.count = 0
        self.batcher: Batcher[Item, Answer] | None = None
        self.opening: asyncio.Task[None] | None = None
        #: Kept here only because the event loop holds no strong reference to a task.
        self.closing: asyncio.Task[None] | None = None
        self.holder: AsyncGenerator[None, None] | None = None


class LoopLinks(Generic[Item, Answer]):
    """Opens a link for each loop that submits often. On that loop, `open_submit` opens it and `unlink` closes it."""

    def __init__(
        self, open_submit: Callable[[], Awaitable[Serve[Answer]]], unlink: Callable[[], Awaitable[None]]
    ) -> None:
        self._open_submit = open_submit
        self._unlink = unlink
        self._links: WeakKeyDictionary[Loop, LoopLink[Item, Answer]] = WeakKeyDictionary()
        #: The loop that opened a link last, and its batcher: mostly all callers are on one loop, and need no lookup.
        self._latest: tuple[Loop | None, Batcher[Item, Answer] | None] = None, None
        # Reentrant: a loop with eager tasks may run one to its end where it is created.
        self._guard = threading.RLock()

    def batcher(self) -> Batcher[Item, Answer] | None:
        """Return the running loop's own batcher, if it has one; each call counts towards having one."""
        loop = asyncio.get_running_loop()
        latest, batcher = self._latest
        if latest is loop:
            return batcher
        link = self._links.get(loop)
        if link is None:
            with self._guard:
                link = self._links[loop] = LoopLink()
        if link.batcher is None and link.opening is None:
            link.count += 1
            if link.count >= SUBMISSIONS_BEFORE_LINK:
                with self._guard:
                    link.opening = loop.create_task(self._open(link))
        return link.batcher

    def close(self) -> None:
        """Close all links: that of the running loop soon, those of other threads before this returns."""
        with self._guard:
            links = dict(self._links)
            self._links.clear()
        for loop, link in links.items():
            self._close(loop, link)

    def _close(self, loop: Loop, link: LoopLink[Item, Answer]) -> None:
        self._withdraw(link)
        if (link.opening is None and link.holder is None) or loop.is_closed():
            return
        closing = _close_holder(link)
        if loop is running_loop():
            link.closing = loop.create_task(closing)
        elif loop.is_running():
            # It may end meanwhile, or be busy for long; its connections go with it.
            with suppress(Exception):
                asyncio.run_coroutine_threadsafe(closing, loop).result(CLOSE_SECONDS)
        else:
            closing.close()

    async def _open(self, link: LoopLink[Item, Answer]) -> None:
        link.holder = self._hold(link)
        # If it cannot be opened, the portal goes on and reports why.
        with suppress(Exception):
            await anext(link.holder)

    async def _hold(self, link: LoopLink[Item, Answer]) -> AsyncGenerator[None, None]:
        batcher: Batcher[Item, Answer] | None = None
        try:
            batcher = link.batcher = Batcher(await self._open_submit(), prompt=True)
            self._latest = asyncio.get_running_loop(), batcher
            yield
        finally:
            self._withdraw(link)
            link.opening = link.holder = None
            with self._guard:
                self._links.pop(asyncio.get_running_loop(), None)
            try:
                await self._close_batcher(batcher)
            except asyncio.CancelledError:
                # The shutdown of a loop cancels all its tasks, perhaps this one: then it is tried once more.
                await self._close_batcher(batcher)
                raise

    def _withdraw(self, link: LoopLink[Item, Answer]) -> None:
        """Send no more submissions to this link."""
        if self._latest[1] is link.batcher:
            self._latest = None, None
        link.batcher = None

    async def _close_batcher(self, batcher: Batcher[Item, Answer] | None) -> None:
        if batcher is not None:
            await batcher.close()
        await self._unlink()


async def _close_holder(link: LoopLink[Any, Any]) -> None:
    opening, holder = link.opening, link.holder
    if opening is not None and not opening.done():
        opening.cancel()
        await asyncio.wait([opening])
    if holder is not None:
        await holder.aclose()
