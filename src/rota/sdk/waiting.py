"""Waiting for many handles at once: all of them, or each as it ends; without a thread or a slot for each."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import timedelta
from typing import Final, Generic, TypeVar

from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest
from rota.core.job import Job
from rota.core.lifecycle import FINISHED
from rota.sdk.handle import Handle, ResultTimeout, warn_in_handler

R = TypeVar("R")
#: How many jobs are waited for at the same time, and for how long before others are.
_AT_ONCE: Final = 64
_TURN: Final = timedelta(seconds=1)


def wait_all(handles: Iterable[Handle[R]], timeout: timedelta | float | str | None = None) -> list[R]:
    """Wait for the results of all jobs, at most for `timeout` together, and return them in the order of the handles.

    Raises `JobFailed` for the first handle whose job failed, once all have ended.
    """
    warn_in_handler("wait_all()")
    listed = list(handles)
    _Waiting(listed, timeout).run()
    return [one.result() for one in listed]


def as_completed(handles: Iterable[Handle[R]], timeout: timedelta | float | str | None = None) -> Completed[R]:
    """Iterate over the handles as their jobs end, at most for `timeout` together; `async for` in async code."""
    return Completed(list(handles), timeout)


class Completed(Generic[R]):
    """Handles in the order in which their jobs end."""

    def __init__(self, handles: list[Handle[R]], timeout: timedelta | float | str | None) -> None:
        self._handles = handles
        self._timeout = timeout

    def __iter__(self) -> Iterator[Handle[R]]:
        warn_in_handler("as_completed()")
        waiting = _Waiting(self._handles, self._timeout)
        while ended := waiting.call():
            yield from ended

    async def __aiter__(self) -> AsyncIterator[Handle[R]]:
        waiting = _Waiting(self._handles, self._timeout)
        while ended := await waiting.acall():
            for one in ended:
                yield one


class _Waiting(Generic[R]):
    """Waits for some jobs at a time, on the loop of their app, each for a short turn."""

    def __init__(self, handles: list[Handle[R]], timeout: timedelta | float | str | None) -> None:
        for one in handles:
            if not isinstance(one, Handle):
                raise InvalidRequest(f"handles: {one!r} is not a handle of a job; give what submit() returned")
            if one.app is not handles[0].app:
                # Each app reads its store on a loop of its own.
                message = "handles: the jobs belong to different apps; wait for those of one app at a time"
                raise InvalidRequest(message, field="handles")
        self._left = deque(handles)
        self._portal = handles[0].app.portal if handles else None
        self._timeout = timeout
        self._end: float | None = None
        self._under_way: dict[asyncio.Task[Job], Handle[R]] = {}

    def run(self) -> None:
        while self.call():
            pass

    def call(self) -> list[Handle[R]]:
        return [] if self._portal is None else self._portal.call(self._next())

    async def acall(self) -> list[Handle[R]]:
        return [] if self._portal is None else await self._portal.acall(self._next())

    async def _next(self) -> list[Handle[R]]:
        """Return the next handles whose jobs have ended; none at the end of the list."""
        loop = asyncio.get_running_loop()
        if self._end is None and self._timeout is not None:
            self._end = loop.time() + parse_duration(self._timeout, field="timeout").total_seconds()
        ended: list[Handle[R]] = []
        while not ended and (self._left or self._under_way):
            seconds = None if self._end is None else self._end - loop.time()
            if seconds is not None and seconds <= 0:
                count = len(self._left) + len(self._under_way)
                raise ResultTimeout(f"{count} jobs have not ended after {self._timeout}; they are not cancelled")
            while self._left and len(self._under_way) < _AT_ONCE:
                handle = self._left.popleft()
                self._under_way[asyncio.create_task(handle.wait_briefly(_TURN))] = handle
            done, _ = await asyncio.wait(self._under_way, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                handle = self._under_way.pop(task)
                if task.result().state in FINISHED:
                    ended.append(handle)
                else:
                    self._left.append(handle)
        return ended
