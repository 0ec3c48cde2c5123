"""The handlers' loop: where async handlers run, apart from the loop that talks to the store.

The source's loop (the one on which `Worker.run` was awaited) claims, renews and settles. Async handlers run on a loop
of their own, in a thread of its own. A handler that blocks its loop blocks other async handlers and nothing else:
leases are renewed, outcomes of threads and processes are written, deadlines are noticed. The price is a bridge
between two threads; it is crossed once for each batch (`Floor.tell` here, `Holding.ring` back), not once for each
job.

If user code throws out of the loop (`SystemExit` in a callback), the loop is entered again: its tasks are still
there. If the thread is blocked, `is_blocked` says so, from any thread, and `describe` says by whom. At the end the
loop's tasks are cancelled; a thread that does not come back is a daemon and ends with the process.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol

_log = logging.getLogger("rota.worker")
#: Longer than this without a sign of life, and the loop counts as blocked.
BLOCKED_SECONDS: Final = 1.0
_FRAMES_SHOWN: Final = 12


class Floor(Protocol):
    """A loop for handlers."""

    def tell(self, callback: Callable[..., Any], *arguments: Any) -> None:  # noqa: ANN401 - the callback's
        """Call something on the handlers' loop, soon, from any thread."""
        ...

    def soon(self, callback: Callable[[], None]) -> None:
        """Call something on the handlers' loop, soon, from that loop itself: cheaper than `tell`."""
        ...

    def start(self) -> None:
        """Open."""
        ...

    def ping(self) -> None:
        """Ask for a sign of life."""
        ...

    def blocked_for(self) -> float:
        """Say for how many seconds a sign of life has been missing."""
        ...

    def task(self) -> asyncio.Task[Any] | None:
        """Give the task that runs, or blocks, at this moment."""
        ...

    def describe(self) -> str:
        """Show where the loop's thread is."""
        ...

    async def close(self, tasks: list[asyncio.Task[Any]], seconds: float) -> None:
        """Cancel these tasks and close."""
        ...


class OwnFloor:
    """A thread with a loop."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._is_over = False
        self._asked_at: float | None = None
        self._thread = threading.Thread(target=self._serve, name=f"rota-handlers-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def tell(self, callback: Callable[..., Any], *arguments: Any) -> None:  # noqa: ANN401 - the callback's
        """Call something on the loop."""
        with suppress(RuntimeError):  # closed: nobody is left to be told
            self._loop.call_soon_threadsafe(callback, *arguments)

    def soon(self, callback: Callable[[], None]) -> None:
        """Call something on the loop, from the loop."""
        self._loop.call_soon(callback)

    def ping(self) -> None:
        """Ask for a sign of life, unless one is already awaited."""
        if self._asked_at is None:
            self._asked_at = time.monotonic()
            self.tell(self._pong)

    def blocked_for(self) -> float:
        """Say how long the oldest unanswered ping has waited."""
        asked_at = self._asked_at
        return 0.0 if asked_at is None else time.monotonic() - asked_at

    def task(self) -> asyncio.Task[Any] | None:
        """Look at what the loop is doing."""
        return asyncio.current_task(self._loop)

    def describe(self) -> str:
        """Show the thread's stack."""
        frame = sys._current_frames().get(self._thread.ident or 0)  # noqa: SLF001 - its documented use
        return "".join(traceback.format_stack(frame)[-_FRAMES_SHOWN:]) if frame is not None else ""

    async def close(self, tasks: list[asyncio.Task[Any]], seconds: float) -> None:
        """Cancel the tasks, stop the loop, and wait for the thread, at most so long."""
        self._is_over = True
        self.tell(self._end, tasks)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join, seconds)
        if self._thread.is_alive():
            _log.warning("the handlers' loop did not end; its thread is left behind:\n%s", self.describe())

    def _pong(self) -> None:
        self._asked_at = None

    def _end(self, tasks: list[asyncio.Task[Any]]) -> None:
        for task in tasks:
            task.cancel()
            # That a handler is left behind has been told; asyncio would tell it again when the task is collected.
            with suppress(AttributeError):  # of a task that somebody else's factory made
                task._log_destroy_pending = False  # type: ignore[attr-defined] # noqa: SLF001 - there is no other way
        # One round for the cancellations to arrive; a handler that still clings to its task loses it.
        self._loop.call_soon(self._loop.call_soon, self._loop.stop)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._is_over:
            try:
                self._loop.run_forever()
            except BaseException:  # noqa: BLE001 - thrown by user code through the loop; the others go on
                _log.exception("something a handler left behind threw out of the handlers' loop; it goes on")
        with suppress(Exception):
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


class SharedFloor:
    """The source's loop itself: for simulations, in which time is virtual and nothing blocks."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Nothing to open."""

    def tell(self, callback: Callable[..., Any], *arguments: Any) -> None:  # noqa: ANN401 - the callback's
        """Call something soon."""
        self._loop.call_soon(callback, *arguments)

    def soon(self, callback: Callable[[], None]) -> None:
        """Call something soon."""
        self._loop.call_soon(callback)

    def ping(self) -> None:
        """Who asks is alive."""

    def blocked_for(self) -> float:
        """Who asks is not blocked."""
        return 0.0

    def task(self) -> asyncio.Task[Any] | None:
        """Give the task that asks."""
        return asyncio.current_task(self._loop)

    def describe(self) -> str:
        """Nothing to show."""
        return ""

    async def close(self, tasks: list[asyncio.Task[Any]], seconds: float) -> None:
        """Cancel the tasks and see them end."""
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)


class Bell:
    """Rings for the other loop when the handlers' loop has done what it can do at once: once for all that ended."""

    def __init__(self, floor: Floor, ring: Callable[[], None]) -> None:
        self._floor = floor
        self._ring = ring
        self._is_due = False

    def ring(self) -> None:
        """Ring soon. Called on the handlers' loop."""
        if not self._is_due:
            self._is_due = True
            self._floor.soon(self._now)

    def _now(self) -> None:
        self._is_due = False
        self._ring()
