"""The handler loop: an event loop in a thread of its own, on which async handlers run.

The source loop (the one on which `Worker.run` was awaited) claims, renews and settles. A handler that blocks the
handler loop delays other async handlers and nothing else: leases are renewed, outcomes of threads and processes are
written, deadlines are noticed. The price is communication between two threads; there is one wake-up for each batch
(`call_threadsafe` here, `AttemptTracker.wake` back), not one for each job.

If user code raises out of the loop (`SystemExit` in a callback), the loop is started again: its tasks are still there.
While the thread is blocked, `blocked_for` returns for how long, from any thread, and `stack_text` where. At the end the
loop's tasks are cancelled; a thread that does not end is a daemon and ends with the process.
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
#: A loop that has not responded for this time counts as blocked.
BLOCKED_SECONDS: Final = 1.0
_FRAMES_SHOWN: Final = 12


class HandlerLoop(Protocol):
    """An event loop for async handlers."""

    def call_threadsafe(self, callback: Callable[..., Any], *arguments: Any) -> None:  # noqa: ANN401 - the callback's
        """Call a function on the loop, soon, from any thread."""
        ...

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call a function on the loop, soon, from the loop itself: cheaper than `call_threadsafe`."""
        ...

    def start(self) -> None: ...

    def ping(self) -> None:
        """Send a ping to the loop."""
        ...

    def blocked_for(self) -> float:
        """Return for how many seconds a ping has not been answered."""
        ...

    def current_task(self) -> asyncio.Task[Any] | None:
        """Return the task that runs, or blocks, at this moment."""
        ...

    def stack_text(self) -> str:
        """Return the stack of the loop's thread."""
        ...

    async def close(self, tasks: list[asyncio.Task[Any]], seconds: float) -> None:
        """Cancel the tasks that still run, wait for them at most `seconds`, and stop the loop's thread."""
        ...


class LoopThread:
    """A thread with an event loop."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._is_closing = False
        self._pinged_at: float | None = None
        self._thread = threading.Thread(target=self._serve, name=f"rota-handlers-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def call_threadsafe(self, callback: Callable[..., Any], *arguments: Any) -> None:  # noqa: ANN401 - the callback's
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(callback, *arguments)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def ping(self) -> None:
        """Send a ping, unless one is already unanswered."""
        if self._pinged_at is None:
            self._pinged_at = time.monotonic()
            self.call_threadsafe(self._pong)

    def blocked_for(self) -> float:
        pinged_at = self._pinged_at
        return 0.0 if pinged_at is None else time.monotonic() - pinged_at

    def current_task(self) -> asyncio.Task[Any] | None:
        return asyncio.current_task(self._loop)

    def stack_text(self) -> str:
        frame = sys._current_frames().get(self._thread.ident or 0)  # noqa: SLF001 - its documented use
        return "".join(traceback.format_stack(frame)[-_FRAMES_SHOWN:]) if frame is not None else ""

    async def close(self, tasks: list[asyncio.Task[Any]], seconds: float) -> None:
        """Cancel the tasks, stop the loop, and wait for the thread, at most so long."""
        self._is_closing = True
        self.call_threadsafe(self._end, tasks)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join, seconds)
        if self._thread.is_alive():
            _log.warning("the event loop of the async handlers did not end; its thread:\n%s", self.stack_text())

    def _pong(self) -> None:
        self._pinged_at = None

    def _end(self, tasks: list[asyncio.Task[Any]]) -> None:
        for task in tasks:
            task.cancel()
            # The worker has logged that it abandons the handler; asyncio would log the task again when it is collected.
            with suppress(AttributeError):  # of a task made by another task factory
                task._log_destroy_pending = False  # type: ignore[attr-defined] # noqa: SLF001 - there is no other way
        # One iteration for the cancellations to arrive; a handler that ignores its cancellation is not waited for.
        self._loop.call_soon(self._loop.call_soon, self._loop.stop)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._is_closing:
            try:
                self._loop.run_forever()
            except BaseException:  # noqa: BLE001 - raised by user code through the loop; the others go on
                _log.exception("a callback of a handler raised out of the event loop; the loop is started again")
        with suppress(Exception):
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


class SharedLoop:
    """The source loop itself: for simulations, in which time is virtual and nothing blocks."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Do nothing."""

    def call_threadsafe(self, callback: Callable[..., Any], *arguments: Any) -> None:  # noqa: ANN401 - the callback's
        self._loop.call_soon(callback, *arguments)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def ping(self) -> None:
        """Do nothing: the caller runs on this loop, so it is not blocked."""

    def blocked_for(self) -> float:
        return 0.0

    def current_task(self) -> asyncio.Task[Any] | None:
        return asyncio.current_task(self._loop)

    def stack_text(self) -> str:
        return ""

    async def close(self, tasks: list[asyncio.Task[Any]], seconds: float) -> None:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)


class LoopWaker:
    """Wakes the source loop once for all attempts that finish in one iteration of the handler loop."""

    def __init__(self, loop: HandlerLoop, wake: Callable[[], None]) -> None:
        self._loop = loop
        self._wake = wake
        self._is_due = False

    def wake(self) -> None:
        """Wake the source loop at the end of this iteration. Called on the handler loop."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._wake_now)

    def _wake_now(self) -> None:
        self._is_due = False
        self._wake()
