"""The portal: a background thread with its own event loop, on which sync and async code of the app reach the engine.

A program may have no event loop, one, or several, and a loop that is blocked must not delay what Rota does. So Rota
runs its own. `PortalBatcher` brings submissions of many threads and loops to it in batches.

While the portal closes, calls are either served or refused with `StoreUnavailable`: what is still running at the end is
cancelled, and its callers get that error.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, TypeAlias, TypeVar

from rota._loop import new_loop
from rota.batching import Batcher
from rota.core.errors import StoreUnavailable

#: How long closing waits for the calls that it has cancelled.
CANCEL_SECONDS: Final = 5.0
CLOSED: Final = "the app was closed meanwhile; try again"

T = TypeVar("T")
Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Portal:
    """Runs coroutines on its own loop, called from any thread or loop."""

    def __init__(self) -> None:
        self._loop = new_loop()
        self._guard = threading.Lock()
        self._is_open = True
        self._thread = threading.Thread(target=self._run, name="rota-portal", daemon=True)
        self._thread.start()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def start(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine; refuse it if the portal is closed."""
        # A loop that has stopped would accept it and never run it.
        with self._guard:
            if self._is_open:
                return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        coroutine.close()
        raise StoreUnavailable(CLOSED)

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for it, from code that is not async."""
        try:
            self.require_elsewhere()
        except RuntimeError:
            coroutine.close()
            raise
        try:
            return self.start(coroutine).result()
        except concurrent.futures.CancelledError as error:
            raise StoreUnavailable(CLOSED) from error

    def require_elsewhere(self) -> None:
        """Refuse a blocking call on the portal's own thread, where it would wait for itself."""
        if threading.get_ident() == self._thread.ident:
            raise RuntimeError("called from Rota's own loop, which would wait for itself; use the async form")

    async def acall(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for it, from any event loop."""
        try:
            return await asyncio.wrap_future(self.start(coroutine))
        except asyncio.CancelledError as error:
            caller = asyncio.current_task()
            if caller is None or caller.cancelling():
                raise
            raise StoreUnavailable(CLOSED) from error

    def close(self, last: Coroutine[Any, Any, None] | None = None) -> None:
        """Refuse further calls, run `last` after all that came before, and end the loop and its thread."""
        with self._guard:
            self._is_open = False
        try:
            if last is not None:
                asyncio.run_coroutine_threadsafe(last, self._loop).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.run_until_complete(_cancel_all())


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=CANCEL_SECONDS)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the loop that runs on this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class _Request(Generic[Item, Answer]):
    """The items of one caller, and the future on which its thread or loop waits."""

    __slots__ = ("future", "items", "loop")

    def __init__(
        self,
        items: Sequence[Item],
        future: concurrent.futures.Future[Sequence[Answer]] | asyncio.Future[Sequence[Answer]],
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.items = items
        self.future = future
        self.loop = loop


_Served: TypeAlias = list[tuple[_Request[Item, Answer], "asyncio.Future[Sequence[Answer]]"]]


class PortalBatcher(Generic[Item, Answer]):
    """Brings items from many threads and loops to a batcher on the portal's loop, and the answers back.

    A switch from one thread to another costs more than most of the work behind it. So only the first of several callers
    wakes the portal; it takes all requests that are there, and each waiting loop is woken once for all its answers. A
    request that is cancelled before the portal takes it is left out; later it is served and its answer dropped.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, batcher: Batcher[Item, Answer]) -> None:
        self._loop = loop
        self._batcher = batcher
        self._guard = threading.Lock()
        self._requests: list[_Request[Item, Answer]] = []
        #: The answers that go back, by loop.
        self._answers: dict[asyncio.AbstractEventLoop, _Served[Item, Answer]] = {}
        self._is_open = True

    def submit(self, items: Sequence[Item]) -> Sequence[Answer]:
        """Pass items on and wait for the answers, from a thread without a loop."""
        future: concurrent.futures.Future[Sequence[Answer]] = concurrent.futures.Future()
        self._add(_Request(items, future))
        return future.result()

    async def asubmit(self, items: Sequence[Item]) -> Sequence[Answer]:
        """Pass items on and wait for the answers, from any loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Sequence[Answer]] = loop.create_future()
        self._add(_Request(items, future, loop))
        return await future

    async def close(self) -> None:
        """Serve all requests that are waiting, and refuse further ones. Runs on the portal's loop."""
        with self._guard:
            self._is_open = False
        self._take_all()
        await self._batcher.close()
        # So that the answers are sent before the loop ends.
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def _add(self, request: _Request[Item, Answer]) -> None:
        with self._guard:
            if not self._is_open:
                raise StoreUnavailable(CLOSED)
            is_first = not self._requests
            self._requests.append(request)
        if is_first:
            try:
                self._loop.call_soon_threadsafe(self._take_all)
            except RuntimeError as error:
                # The loop is closed: the next caller must not rely on this one to have woken it.
                with self._guard:
                    self._requests.clear()
                raise StoreUnavailable(CLOSED) from error

    def _take_all(self) -> None:
        with self._guard:
            requests, self._requests = self._requests, []
        for request in requests:
            if not request.future.cancelled():
                self._batcher.hand_in(request.items).add_done_callback(partial(self._on_served, request))

    def _on_served(self, request: _Request[Item, Answer], served: asyncio.Future[Sequence[Answer]]) -> None:
        if request.loop is None:
            _answer(request, served)
            return
        if not self._answers:
            self._loop.call_soon(self._send_answers)
        self._answers.setdefault(request.loop, []).append((request, served))

    def _send_answers(self) -> None:
        answers, self._answers = self._answers, {}
        for loop, served in answers.items():
            # Closed: no caller is left to be answered.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_answer_all, served)


def _answer_all(answers: _Served[Item, Answer]) -> None:
    for request, served in answers:
        _answer(request, served)


def _answer(request: _Request[Item, Answer], served: asyncio.Future[Sequence[Answer]]) -> None:
    future = request.future
    if future.done():
        return
    if served.cancelled():
        future.set_exception(StoreUnavailable("the app was closed before this was submitted; submit it again"))
    elif (error := served.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(served.result())
