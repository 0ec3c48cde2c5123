"""The portal: one thread with an event loop of its own, through which sync and async code alike reach the engine.

A program may have no loop, one, or several, and a blocked one must not hold up what Rota does. So Rota brings its own.

Whoever comes while the portal closes is served or refused: what is still under way at the end is called off, and who
waits for it is told so.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from rota.core.errors import StoreUnavailable
from rota.loops import new_loop

#: How long closing waits for what it has called off.
LONGEST_GOODBYE_SECONDS: Final = 5.0
CLOSED: Final = "Rota was closed meanwhile; try it again"

T = TypeVar("T")


class Portal:
    """Runs coroutines on its own loop, whoever asks."""

    def __init__(self) -> None:
        self._loop = new_loop()
        self._guard = threading.Lock()
        self._is_open = True
        self._thread = threading.Thread(target=self._run, name="rota-portal", daemon=True)
        self._thread.start()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop."""
        return self._loop

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine."""
        # A loop that has ended would take it and never begin it.
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
            return self.submit(coroutine).result()
        except concurrent.futures.CancelledError as error:
            raise StoreUnavailable(CLOSED) from error

    def require_elsewhere(self) -> None:
        """Refuse to wait on the loop for itself."""
        if threading.get_ident() == self._thread.ident:
            raise RuntimeError("called from Rota's own loop, which would wait for itself; use the async form")

    async def acall(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for it, from any event loop."""
        try:
            return await asyncio.wrap_future(self.submit(coroutine))
        except asyncio.CancelledError as error:
            caller = asyncio.current_task()
            if caller is None or caller.cancelling():
                raise
            raise StoreUnavailable(CLOSED) from error

    def close(self, last: Coroutine[Any, Any, None] | None = None) -> None:
        """Take nothing more, do one last thing after all that came before, and end the loop and its thread."""
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
        self._loop.run_until_complete(_call_off())


async def _call_off() -> None:
    """End all that is still under way."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=LONGEST_GOODBYE_SECONDS)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Give the loop that runs on this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
