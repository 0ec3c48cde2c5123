"""Batching: concurrent calls of one verb share one call to a store on a server, or to the engine.

While a batch is being served, new calls are collected, and all of them form the next batch. No call waits to fill a
batch: under load batches fill by themselves, and a lone call is served at once. So a thousand callers of single items
cost the server as few commits as one caller of a large batch.

Failures: if the store is unavailable, every call of the batch gets that error, since it is unknown whether the batch
took effect. Any other error belongs to one request, so each call is served again by itself, and one bad request cannot
fail the others. A call that is cancelled before its batch began is left out; later, it is served and its answer
dropped.

A task per batch costs a lone caller a good part of its time. A batcher that is `prompt` serves a lone call in the
caller's own task instead; if the caller is cancelled, the call is aborted, and it is unknown whether it took effect.
That suits submissions, which can be repeated, but not settlements, which must not be lost.
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
from rota.ports.caller_tx import run_sync

#: A larger batch gains nothing and makes its first calls wait.
LARGEST_BATCH: Final = 1000

_is_cancelled: Final = methodcaller("cancelled")

Item = TypeVar("Item")
Answer = TypeVar("Answer")
#: Serves a batch and returns one answer for each item, in order. The arguments after the batch apply to all of it. If
#: it raises anything but `Unavailable`, nothing has happened, or repeating it does no harm.
Serve = Callable[..., Coroutine[Any, Any, Sequence[Answer]]]


class _Group(Generic[Item, Answer]):
    """Calls that may share a batch: the items of each, and the future of its answers."""

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

    def take(self, size: int) -> _Group[Item, Answer]:
        """Take calls from the front with at most `size` items together, but at least one call."""
        # Every call has an item, so no more than `size` calls can fit.
        batches = self.batches[:size]
        if sum(map(len, batches)) > size:
            del batches[bisect_right(list(accumulate(map(len, batches))), size) or 1 :]
        futures = self.futures[: len(batches)]
        del self.batches[: len(batches)], self.futures[: len(batches)]
        return _Group(batches, futures, self.sharing)

    def leave_out_cancelled(self) -> None:
        """Leave out calls that were cancelled."""
        if any(map(_is_cancelled, self.futures)):
            is_waiting = [not future.cancelled() for future in self.futures]
            self.batches, self.futures = (
                list(compress(self.batches, is_waiting)),
                list(compress(self.futures, is_waiting)),
            )

    def answer(self, answers: Sequence[Answer]) -> None:
        """Give each call its own answers."""
        # Nearly always, each call has one item.
        given: Iterable[Sequence[Answer]] = map(list, zip(answers, strict=True))
        if len(answers) != len(self.batches):
            ends = list(accumulate(map(len, self.batches)))
            given = [answers[start:end] for start, end in pairwise([0, *ends])]
        for future, one in zip(self.futures, given, strict=True):
            if not future.done():
                future.set_result(one)

    def fail(self, error: Unavailable) -> None:
        """Fail all calls without an answer."""
        for future in self.futures:
            if not future.done():
                # A copy for each caller: one exception raised in many places would collect all their tracebacks.
                copy = type(error)(*error.args)
                copy.__cause__ = error.__cause__
                future.set_exception(copy)


class Batcher(Generic[Item, Answer]):
    """Serves the calls of one verb, one batch at a time."""

    def __init__(self, serve: Serve[Answer], *, largest: int = LARGEST_BATCH, prompt: bool = False) -> None:
        self._serve = serve
        self._largest = largest
        self._is_prompt = prompt
        #: Whether the last batch was a single call; under load, the first call must not be served alone.
        self._was_alone = True
        #: Whether a lone call is being served in its own task, and the future of the end of it.
        self._is_serving = False
        self._free: asyncio.Future[None] | None = None
        self._waiting: deque[_Group[Item, Answer]] = deque()
        #: The last group, which the next call may join; and the function that makes futures, looked up once per group,
        #: because finding the running loop costs as much as making a future.
        self._last: _Group[Item, Answer] | None = None
        self._expect: Callable[[], asyncio.Future[Sequence[Answer]]] = asyncio.Future
        self._work: asyncio.Task[None] | None = None
        self._is_open = True

    def run(self, batch: Sequence[Item], *sharing: object) -> Awaitable[Sequence[Answer]]:
        """Serve items and return their answers. Only calls with equal `sharing` share a batch."""
        # Not async: a coroutine that only awaits a future costs as much as the future.
        if not self._is_open:
            raise StoreUnavailable("the store is closed")
        if not batch or (self._is_prompt and self._was_alone and self._work is None and not self._is_serving):
            return self._run_alone(batch, sharing)
        return self._join(batch, sharing)

    async def _run_alone(self, batch: Sequence[Item], sharing: tuple[object, ...]) -> Sequence[Answer]:
        if not batch:
            return []
        # Between the call and its await, other calls may have come, or `close` was called.
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
        """Add a call, and return the future of its answers."""
        if batch:
            return self._join(batch, sharing)
        nothing: asyncio.Future[Sequence[Answer]] = asyncio.get_running_loop().create_future()
        nothing.set_result([])
        return nothing

    def _join(self, batch: Sequence[Item], sharing: tuple[object, ...]) -> asyncio.Future[Sequence[Answer]]:
        """Add the items of one call, at least one, to the next batch: a call without items gets no answer."""
        group = self._last
        if group is None or sharing != group.sharing:
            group = self._last = _Group([], [], sharing)
            self._waiting.append(group)
            self._expect = asyncio.get_running_loop().create_future
        future: asyncio.Future[Sequence[Answer]] = self._expect()
        group.batches.append(batch)
        group.futures.append(future)
        if self._work is None and not self._is_serving:
            self._begin()
        return future

    async def close(self) -> None:
        """Finish the calls that wait, and accept no more."""
        self._is_open = False
        while self._is_serving:
            if self._free is None or self._free.done():
                self._free = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._free)
        if self._work is not None:
            await asyncio.wait([self._work])

    def finish(self, serve: Serve[Answer]) -> None:
        """Serve the calls that wait now, with a function that never suspends, and accept no more."""
        self._is_open = False
        self._serve = serve
        run_sync(self._serve_waiting())

    def _begin(self) -> None:
        self._work = asyncio.get_running_loop().create_task(self._serve_all())

    async def _serve_all(self) -> None:
        try:
            await self._serve_waiting()
        finally:
            self._work = None
            # Only if this task was cancelled: no other task will serve them.
            for group in self._waiting:
                group.fail(StoreUnavailable("the store was closed before this call was begun"))
            self._waiting.clear()
            self._last = None

    async def _serve_waiting(self) -> None:
        while self._waiting:
            group = self._gather()
            if group.futures:
                await self._serve_together(group)

    def _gather(self) -> _Group[Item, Answer]:
        """Take the next call and all after it that can share a batch with it."""
        first = self._waiting[0]
        group = first.take(self._largest)
        if not first.futures:
            self._waiting.popleft()
            if first is self._last:
                self._last = None
        group.leave_out_cancelled()
        self._was_alone = len(group.futures) == 1
        return group

    async def _serve_together(self, group: _Group[Item, Answer]) -> None:
        batches, futures = group.batches, group.futures
        batch = batches[0] if len(batches) == 1 else list(chain.from_iterable(batches))
        try:
            answers = await self._serve(batch, *group.sharing)
        except Exception as error:  # noqa: BLE001 - any error is the answer to a call
            if isinstance(error, Unavailable) and not isinstance(error, QueueFull):
                group.fail(error)
            elif len(futures) > 1:
                await self._serve_apart(group)
            elif not futures[0].done():
                futures[0].set_exception(error)
        except BaseException:
            group.fail(StoreUnavailable("the store was closed during this call"))
            raise
        else:
            group.answer(answers)

    async def _serve_apart(self, group: _Group[Item, Answer]) -> None:
        try:
            for batch, future in zip(group.batches, group.futures, strict=True):
                await self._serve_together(_Group([batch], [future], group.sharing))
        finally:
            # Only if this task was cancelled: otherwise, all have their answers.
            group.fail(StoreUnavailable("the store was closed before this call was begun"))
