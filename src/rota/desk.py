"""A desk: where calls of one verb wait for each other, in front of a store that is a server, or of the engine.

While a batch is under way, what comes in is gathered, and all of it goes into the next one. Nobody lingers to fill a
batch: under load the batches fill by themselves, and alone a call leaves at once. So many small callers cost the server
as few commits as one big caller.

What happens when something fails: if the store is away, everybody in the batch is told so, since nobody knows what
became of it. Any other failure is some request's own fault, so each is served again by itself, and one bad request
cannot fail its neighbours. A caller who goes away before its batch has begun is left out; later, it is served and its
answer dropped.

A task for each batch costs a lone caller a fair part of its time. A desk that is `prompt` serves one who comes alone at
its own hands instead; if that caller goes away, what was begun for it is broken off, and nobody knows how far it came.
That suits submissions, which can be repeated; a settlement must not be lost because somebody stopped waiting for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from itertools import chain
from typing import Any, Final, Generic, TypeVar

from rota.core.errors import QueueFull, StoreUnavailable, Unavailable
from rota.ports.guest import at_once

#: More than this in one call gains nothing and makes those at its head wait.
LARGEST_BATCH: Final = 1000

Item = TypeVar("Item")
Answer = TypeVar("Answer")
#: Serves a batch and gives one answer for each of its items, in order. What follows the batch is shared by all of it.
#: If it raises anything but that the other end is away, either nothing has happened, or it does no harm to do it again.
Serve = Callable[..., Coroutine[Any, Any, Sequence[Answer]]]


#: A batch that was handed in, what it shares, and what will have its answers.
_Call = tuple[Sequence[Item], tuple[object, ...], "asyncio.Future[Sequence[Answer]]"]


class MergingDesk(Generic[Item, Answer]):
    """Serves the calls of one verb, one batch at a time."""

    def __init__(self, serve: Serve[Answer], *, largest: int = LARGEST_BATCH, prompt: bool = False) -> None:
        self._serve = serve
        self._largest = largest
        self._is_prompt = prompt
        #: Whether the last batch was a single call. In a crowd, whoever came first would always go alone.
        self._was_alone = True
        #: Whether a caller is served at its own hands, and who waits for that to end.
        self._is_serving = False
        self._free: asyncio.Future[None] | None = None
        self._waiting: deque[_Call[Item, Answer]] = deque()
        #: Whether all who wait brought one item each and share the same: nearly always, and then less has to be asked.
        self._is_uniform = True
        self._work: asyncio.Task[None] | None = None
        self._is_open = True

    async def run(self, batch: Sequence[Item], *sharing: object) -> Sequence[Answer]:
        """Hand a batch in and wait for the answers. Only calls with equal `sharing` are served together."""
        if not self._is_open:
            raise StoreUnavailable("the store is closed")
        if not batch:
            return []
        if not self._is_prompt or not self._was_alone or self._work is not None or self._is_serving:
            return await self.hand_in(batch, *sharing)
        self._is_serving = True
        try:
            return await self._serve(batch, *sharing)
        finally:
            self._is_serving = False
            if self._waiting and self._work is None:
                self._begin()
            if self._free is not None and not self._free.done():
                self._free.set_result(None)

    def hand_in(self, batch: Sequence[Item], *sharing: object) -> asyncio.Future[Sequence[Answer]]:
        """Hand a batch in, and give what will have the answers."""
        waiting = self._waiting
        if not waiting:
            self._is_uniform = len(batch) == 1
        elif len(batch) != 1 or sharing != waiting[-1][1]:
            self._is_uniform = False
        future: asyncio.Future[Sequence[Answer]] = asyncio.get_running_loop().create_future()
        waiting.append((batch, sharing, future))
        if self._work is None and not self._is_serving:
            self._begin()
        return future

    async def close(self) -> None:
        """Finish what was handed in, and take nothing more."""
        self._is_open = False
        while self._is_serving:
            if self._free is None or self._free.done():
                self._free = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._free)
        if self._work is not None:
            await asyncio.wait([self._work])

    def finish(self, serve: Serve[Answer]) -> None:
        """Serve what waits here and now, by something that never suspends, and take nothing more."""
        self._is_open = False
        self._serve = serve
        at_once(self._serve_waiting())

    def _begin(self) -> None:
        self._work = asyncio.get_running_loop().create_task(self._serve_all())

    async def _serve_all(self) -> None:
        try:
            await self._serve_waiting()
        finally:
            self._work = None
            # Only if this very task was cancelled: nobody will come for them any more.
            _fail(self._waiting, StoreUnavailable("the store was closed before this was begun"))
            self._waiting.clear()

    async def _serve_waiting(self) -> None:
        while self._waiting:
            group = self._gather()
            if group:
                await self._serve_together(group)

    def _gather(self) -> list[_Call[Item, Answer]]:
        """Take the next call and all behind it that can share a batch with it."""
        count = min(len(self._waiting), self._largest) if self._is_uniform else self._fitting()
        taken = [self._waiting.popleft() for _ in range(count)]
        # Not yet begun and no longer wanted: leave it.
        group = [call for call in taken if not call[2].cancelled()]
        self._was_alone = len(group) == 1
        return group

    def _fitting(self) -> int:
        """Say how many of those who wait can share a batch: those in front that share the same, and not too much."""
        size = 0
        for place, (batch, sharing, _) in enumerate(self._waiting):
            size += len(batch)
            if place and (sharing != self._waiting[0][1] or size > self._largest):
                return place
        return len(self._waiting)

    async def _serve_together(self, group: Sequence[_Call[Item, Answer]]) -> None:
        batches = [call[0] for call in group]
        batch = batches[0] if len(group) == 1 else list(chain.from_iterable(batches))
        try:
            answers = await self._serve(batch, *group[0][1])
        except Exception as error:  # noqa: BLE001 - whatever it is, it is some call's answer, not ours
            if isinstance(error, Unavailable) and not isinstance(error, QueueFull):
                _fail(group, error)
            elif len(group) > 1:
                for call in group:
                    await self._serve_together([call])
            elif not group[0][2].done():
                group[0][2].set_exception(error)
        except BaseException:
            _fail(group, StoreUnavailable("the store was closed while this was under way"))
            raise
        else:
            _answer(group, answers)


def _answer(group: Sequence[_Call[Item, Answer]], answers: Sequence[Answer]) -> None:
    start = 0
    for batch, _, future in group:
        end = start + len(batch)
        if not future.done():
            future.set_result(answers[start:end])
        start = end


def _fail(group: Iterable[_Call[Item, Answer]], error: Unavailable) -> None:
    for _, _, future in group:
        if not future.done():
            # Each caller raises an error of its own: one that is raised in many places gathers all their traces.
            copy = type(error)(*error.args)
            copy.__cause__ = error.__cause__
            future.set_exception(copy)
