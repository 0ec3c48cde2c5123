"""Homes: a link of its own for a loop that submits much, or again and again.

The portal costs an async caller two crossings between threads for each submission it waits for. On a server's database
that is as much as all the rest, and for one who submits now and then a tenth of a job's way to its start. So a loop
that is worth a few connections of its own gets a link of its own, and submits on its own thread from then on: one that
has submitted often, or one that still does after it has run for a second without a pause. Loops that come and go, one
for each request, never get that far; nor do those that are run now and then, which could not tell anybody of a job by
themselves until they run again. A file has one writer for all (see `side`).

A home ends with its loop: it is held by an async generator, which whoever ends a loop properly closes (`asyncio.run`
does). Until a home is ready, and if it cannot be had, the portal serves.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from rota.desk import MergingDesk, Serve
from rota.sdk.portal import running_loop

#: After so many submissions a loop is worth a link of its own.
WORTH: Final = 100
#: So is one that has run for so long since its first one, as so many beats tell that come in time, if it is one of the
#: first few: there may be a loop in each of hundreds of threads, and a server has only so many connections.
STAYS_SECONDS: Final = 1.0
BEATS: Final = 4
LATE_SECONDS: Final = 0.1
FEW: Final = 4
#: How long closing waits for another thread's loop to let go.
LONGEST_GOODBYE_SECONDS: Final = 5.0

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Loop = asyncio.AbstractEventLoop


class Home(Generic[Item, Answer]):
    """What a loop has submitted so far, and its own desk once there is one."""

    def __init__(self, loop: Loop) -> None:
        self.count = 0
        self._beats = 0
        self._beat_later(loop)
        self.desk: MergingDesk[Item, Answer] | None = None
        self.moving: asyncio.Task[None] | None = None
        #: Kept here only because nothing else holds a task.
        self.leaving: asyncio.Task[None] | None = None
        self.holding: AsyncGenerator[None, None] | None = None

    @property
    def has_stayed(self) -> bool:
        """Whether the loop has run for a while without a pause."""
        return self._beats >= BEATS

    def _beat_later(self, loop: Loop) -> None:
        due = loop.time() + STAYS_SECONDS / BEATS
        loop.call_at(due, self._beat, loop, due)

    def _beat(self, loop: Loop, due: float) -> None:
        self._beats = self._beats + 1 if loop.time() < due + LATE_SECONDS else 0
        if not self.has_stayed:
            self._beat_later(loop)


class Homes(Generic[Item, Answer]):
    """Gives each loop that is worth it a desk. On that loop, `open_up` gives what serves, and `leave` lets it go."""

    def __init__(self, open_up: Callable[[], Awaitable[Serve[Answer]]], leave: Callable[[], Awaitable[None]]) -> None:
        self._open_up = open_up
        self._leave = leave
        self._homes: WeakKeyDictionary[Loop, Home[Item, Answer]] = WeakKeyDictionary()
        #: Who has moved in last, and its desk: mostly, all who submit are on one loop, and need not look further.
        self._latest: tuple[Loop | None, MergingDesk[Item, Answer] | None] = None, None
        # Whoever moves in may be done at once, where a loop begins its tasks so.
        self._guard = threading.RLock()

    def desk(self) -> MergingDesk[Item, Answer] | None:
        """Give the running loop's own desk, if it has one. Each time, it comes closer to having one."""
        loop = asyncio.get_running_loop()
        latest, desk = self._latest
        if latest is loop:
            return desk
        home = self._homes.get(loop)
        if home is None:
            with self._guard:
                home = self._homes[loop] = Home(loop)
        if home.desk is None and home.moving is None:
            home.count += 1
            is_much = home.count >= WORTH
            if is_much or home.has_stayed:
                with self._guard:
                    if is_much or self._inhabited() < FEW:
                        home.moving = loop.create_task(self._move_in(home))
        return home.desk

    def _inhabited(self) -> int:
        """How many have moved in, or are about to."""
        return sum(home.moving is not None and not loop.is_closed() for loop, home in self._homes.items())

    def close(self) -> None:
        """End all homes. That of the running loop ends soon, those of other threads before this returns."""
        with self._guard:
            homes = dict(self._homes)
            self._homes.clear()
        for loop, home in homes.items():
            self._end(loop, home)

    def _end(self, loop: Loop, home: Home[Item, Answer]) -> None:
        self._forget(home)
        if (home.moving is None and home.holding is None) or loop.is_closed():
            return
        goodbye = _goodbye(home)
        if loop is running_loop():
            home.leaving = loop.create_task(goodbye)
        elif loop.is_running():
            # It may end meanwhile, or be busy for long; what it holds goes with it.
            with suppress(Exception):
                asyncio.run_coroutine_threadsafe(goodbye, loop).result(LONGEST_GOODBYE_SECONDS)
        else:
            goodbye.close()

    async def _move_in(self, home: Home[Item, Answer]) -> None:
        home.holding = self._hold(home)
        # Where it cannot be had, the portal goes on and says why.
        with suppress(Exception):
            await anext(home.holding)

    async def _hold(self, home: Home[Item, Answer]) -> AsyncGenerator[None, None]:
        desk: MergingDesk[Item, Answer] | None = None
        try:
            desk = home.desk = MergingDesk(await self._open_up(), prompt=True)
            self._latest = asyncio.get_running_loop(), desk
            yield
        finally:
            self._forget(home)
            home.moving = home.holding = None
            with self._guard:
                self._homes.pop(asyncio.get_running_loop(), None)
            try:
                await self._let_go(desk)
            except asyncio.CancelledError:
                # Whoever ends a loop cancels all its tasks, perhaps this one: then it is said again.
                await self._let_go(desk)
                raise

    def _forget(self, home: Home[Item, Answer]) -> None:
        """Send nobody to a desk any more."""
        if self._latest[1] is home.desk:
            self._latest = None, None
        home.desk = None

    async def _let_go(self, desk: MergingDesk[Item, Answer] | None) -> None:
        if desk is not None:
            await desk.close()
        await self._leave()


async def _goodbye(home: Home[Any, Any]) -> None:
    moving, holding = home.moving, home.holding
    if moving is not None and not moving.done():
        moving.cancel()
        await asyncio.wait([moving])
    if holding is not None:
        await holding.aclose()
