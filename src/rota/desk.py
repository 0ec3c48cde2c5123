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
from bisect import bisect_right
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from itertools import accumulate, chain, compress, pairwise
from operator import methodcaller
from typing import Any, Final, Generic, TypeVar

from rota.core.errors import QueueFull, StoreUnavailable, Unavailable
from rota.ports.guest import at_once

#: More than this in one call gains nothing and makes those at its head wait.
LARGEST_BATCH: Final = 1000

_is_cancelled: Final = methodcaller("cancelled")

Item = TypeVar("Item")
Answer = TypeVar("Answer")
#: Serves a batch and gives one answer for each of its items, in order. What follows the batch is shared by all of it.
#: If it raises anything but that the other end is away, either nothing has happened, or it does no harm to do it again.
Serve = Callable[..., Coroutine[Any, Any, Sequence[Answer]]]


class _Crowd(Generic[Item, Answer]):
    """Calls that share a batch: what each brought, and what will have its answers."""

    __slots__ = ("batches", "futures", "sharing")

    def __init__(
        self,
        batches: list[Sequence[Item]],
        futures: list[asyncio.Future[Sequence[Answer]]],
        sharing: tuple[object, ...],
    ) -> None:
        self.batches = batches
        self.futures = futures
        self.sharing = sharing

    def take(self, size: int) -> _Crowd[Item, Answer]:
        """Take calls from the front that bring no more than so much, but at least one."""
        # Nobody brings nothing, so there is no need to look further, however many wait. Nearly always, these will do.
        batches = self.batches[:size]
        if sum(map(len, batches)) > size:
            del batches[bisect_right(list(accumulate(map(len, batches))), size) or 1 :]
        futures = self.futures[: len(batches)]
        del self.batches[: len(batches)], self.futures[: len(batches)]
        return _Crowd(batches, futures, self.sharing)

    def leave_out_cancelled(self) -> None:
        """Forget whoever no longer waits."""
        if any(map(_is_cancelled, self.futures)):
            is_wanted = [not future.cancelled() for future in self.futures]
            self.batches, self.futures = (
                list(compress(self.batches, is_wanted)),
                list(compress(self.futures, is_wanted)),
            )

    def answer(self, answers: Sequence[Answer]) -> None:
        """Give each call its own."""
        # Nearly always, each has brought one.
        given: Iterable[Sequence[Answer]] = map(list, zip(answers, strict=True))
        if len(answers) != len(self.batches):
            ends = list(accumulate(map(len, self.batches)))
            given = [answers[start:end] for start, end in pairwise([0, *ends])]
        for future, one in zip(self.futures, given, strict=True):
            if not future.done():
                future.set_result(one)

    def fail(self, error: Unavailable) -> None:
        """Tell all who have no answer yet."""
        for future in self.futures:
            if not future.done():
                # Each caller raises an error of its own: one that is raised in many places gathers all their traces.
                copy = type(error)(*error.args)
                copy.__cause__ = error.__cause__
                future.set_exception(copy)


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
        self._waiting: deque[_Crowd[Item, Answer]] = deque()
        #: The last of them, which the next call may join; and what makes a future, asked for once for each: to find the
        #: running loop costs as much as to make one.
        self._last: _Crowd[Item, Answer] | None = None
        self._expect: Callable[[], asyncio.Future[Sequence[Answer]]] = asyncio.Future
        self._work: asyncio.Task[None] | None = None
        self._is_open = True

    def run(self, batch: Sequence[Item], *sharing: object) -> Awaitable[Sequence[Answer]]:
        """Hand a batch in and wait for the answers. Only calls with equal `sharing` are served together."""
        # Not async: in a crowd, a coroutine that only waits for a future costs as much as the future.
        if not self._is_open:
            raise StoreUnavailable("the store is closed")
        if not batch or (self._is_prompt and self._was_alone and self._work is None and not self._is_serving):
            return self._run_alone(batch, sharing)
        return self._join(batch, sharing)

    async def _run_alone(self, batch: Sequence[Item], sharing: tuple[object, ...]) -> Sequence[Answer]:
        if not batch:
            return []
        # Between the call and its being awaited, others may have come, and somebody may have closed.
        if not self._is_open:
            raise StoreUnavailable("the store is closed")
        if self._work is not None or self._is_serving:
            return await self._join(batch, sharing)
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
        if batch:
            return self._join(batch, sharing)
        nothing: asyncio.Future[Sequence[Answer]] = asyncio.get_running_loop().create_future()
        nothing.set_result([])
        return nothing

    def _join(self, batch: Sequence[Item], sharing: tuple[object, ...]) -> asyncio.Future[Sequence[Answer]]:
        """Wait with others. Nobody may bring nothing: as many answers as calls are taken for one each."""
        crowd = self._last
        if crowd is None or sharing != crowd.sharing:
            crowd = self._last = _Crowd([], [], sharing)
            self._waiting.append(crowd)
            self._expect = asyncio.get_running_loop().create_future
        future: asyncio.Future[Sequence[Answer]] = self._expect()
        crowd.batches.append(batch)
        crowd.futures.append(future)
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
            for crowd in self._waiting:
                crowd.fail(StoreUnavailable("the store was closed before this was begun"))
            self._waiting.clear()
            self._last = None

    async def _serve_waiting(self) -> None:
        while self._waiting:
            crowd = self._gather()
            if crowd.futures:
                await self._serve_together(crowd)

    def _gather(self) -> _Crowd[Item, Answer]:
        """Take the next call and all behind it that can share a batch with it."""
        first = self._waiting[0]
        crowd = first.take(self._largest)
        if not first.futures:
            self._waiting.popleft()
            if first is self._last:
                self._last = None
        # Not yet begun and no longer wanted.
        crowd.leave_out_cancelled()
        self._was_alone = len(crowd.futures) == 1
        return crowd

    async def _serve_together(self, crowd: _Crowd[Item, Answer]) -> None:
        batches, futures = crowd.batches, crowd.futures
        batch = batches[0] if len(batches) == 1 else list(chain.from_iterable(batches))
        try:
            answers = await self._serve(batch, *crowd.sharing)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is some call's answer, not ours
            if isinstance(error, Unavailable) and not isinstance(error, QueueFull):
                crowd.fail(error)
            elif len(futures) > 1:
                await self._serve_apart(crowd)
            elif not futures[0].done():
                futures[0].set_exception(error)
        except BaseException:
            crowd.fail(StoreUnavailable("the store was closed while this was under way"))
            raise
        else:
            crowd.answer(answers)

    async def _serve_apart(self, crowd: _Crowd[Item, Answer]) -> None:
        try:
            for batch, future in zip(crowd.batches, crowd.futures, strict=True):
                await self._serve_together(_Crowd([batch], [future], crowd.sharing))
        finally:
            # Only if this very task was cancelled: otherwise, all have their answers.
            crowd.fail(StoreUnavailable("the store was closed before this was begun"))
