"""One child process, as its parent sees it.

Three pipes: orders down, answers up, and its standard error, of which the tail is kept as last words and which is
passed on to our own. The child leads a session of its own, so it and all it starts can be killed as one group, and a
signal to the worker's group does not reach it. That it ended is learned from the process itself (a pidfd), not from
its pipes, which a grandchild may hold open; before it is reaped, whatever is left of its group is killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from rota.core.settlement import JobError
from rota.worker.pipe import PipeReader, PipeWriter
from rota.worker.run import Run
from rota.worker.verdict import plain
from rota.worker.wire import Frames, frame

#: How much of its standard error is kept.
LAST_WORDS: Final = 4096


class Child:
    """A process that runs one job at a time."""

    def __init__(
        self, take: Callable[[Child, dict[str, Any]], None], end: Callable[[Child], None], module: str = "child"
    ) -> None:
        self.run: Run | None = None
        self.jobs = 0
        self.ended = asyncio.Event()
        self.status: int | None = None
        self._take = take
        self._end = end
        self._frames = Frames()
        self._words = bytearray()
        self._loop = asyncio.get_running_loop()
        self._start(module)

    def _start(self, module: str) -> None:
        orders_end, orders = os.pipe()
        answers, answers_end = os.pipe()
        words, words_end = os.pipe()
        command = [sys.executable, "-m", f"rota.worker.{module}", str(orders_end), str(answers_end)]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                command,
                stdin=subprocess.DEVNULL,
                stderr=words_end,
                pass_fds=(orders_end, answers_end),
                start_new_session=True,
            )
        finally:
            for descriptor in (orders_end, answers_end, words_end):
                os.close(descriptor)
        self._orders = PipeWriter(self._loop, orders)
        self._answers = PipeReader(self._loop, answers, self._heard, self._silent)
        self._stderr = PipeReader(self._loop, words, self._overheard, lambda: None)
        self._pidfd: int | None = None
        if hasattr(os, "pidfd_open"):
            self._pidfd = os.pidfd_open(self._process.pid)
            self._loop.add_reader(self._pidfd, self._reap)
        self.tell({"path": [entry or os.getcwd() for entry in sys.path]})  # noqa: PTH109 - as Python itself reads it

    @property
    def pid(self) -> int:
        """Its process id, which is its group's as well."""
        return self._process.pid

    def tell(self, message: dict[str, Any]) -> None:
        """Send an order."""
        self._orders.write(frame(message))

    def retire(self) -> None:
        """Let it end by itself, once it has nothing to do."""
        self._orders.close()

    def kill(self) -> None:
        """Kill it and all it started."""
        if self.status is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def last_words(self) -> JobError:
        """Say how it ended, and what it said last."""
        status = self.status or 0
        how = f"was killed by {_signal_name(-status)}" if status < 0 else f"ended with exit status {status}"
        words = plain(self._words.decode("utf-8", "replace"), LAST_WORDS)
        return JobError("ProcessDied", f"the process that ran the handler {how}", words)

    def _heard(self, data: bytes) -> None:
        for message in self._frames.feed(data):
            self._take(self, message)

    def _overheard(self, data: bytes) -> None:
        self._words += data
        del self._words[:-LAST_WORDS]
        with suppress(OSError, ValueError):
            sys.stderr.write(data.decode("utf-8", "replace"))

    def _silent(self) -> None:
        """See to a child that closed its answers: it has ended, or can no longer be of use."""
        if self._pidfd is None:
            self._reap()
        else:
            self.kill()

    def _reap(self) -> None:
        if self.status is not None:
            return
        # While the zombie is not reaped its id cannot be anyone else's, so the group is surely its own.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self.status = self._process.wait()
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        # What it said before it died is still in the pipes.
        for reader in (self._answers, self._stderr):
            reader.drain()
            reader.close()
        self._orders.close()
        self.ended.set()
        self._end(self)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
