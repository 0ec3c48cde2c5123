"""The portal: one thread with an event loop of its own, through which sync and async code alike reach the engine.

A program may have no loop, one, or several, and a blocked one must not hold up what Rota does. So Rota brings its own.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from rota.loops import new_loop

T = TypeVar("T")


class Portal:
    """Runs coroutines on its own loop, whoever asks."""

    def __init__(self) -> None:
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rota-portal", daemon=True)
        self._thread.start()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop."""
        return self._loop

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for it, from code that is not async."""
        try:
            self.require_elsewhere()
        except RuntimeError:
            coroutine.close()
            raise
        return self.submit(coroutine).result()

    def require_elsewhere(self) -> None:
        """Refuse to wait on the loop for itself."""
        if threading.get_ident() == self._thread.ident:
            raise RuntimeError("called from Rota's own loop, which would wait for itself; use the async form")

    async def acall(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for it, from any event loop."""
        return await asyncio.wrap_future(self.submit(coroutine))

    def close(self) -> None:
        """End the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Give the loop that runs on this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
