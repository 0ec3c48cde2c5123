"""A child process, seen from the worker that started it.

Three pipes: orders to the child, answers from it, and its standard error, which is passed on to the worker's own and
whose tail is kept for the error report. The child leads a session of its own, so that it and all it starts can be
killed as one group, and a signal to the worker's group does not reach it. Its end is noticed by the process itself (a
pidfd), not by its pipes, which a grandchild may hold open; before it is reaped, the rest of its group is killed.
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
from rota.worker.attempt import RunningAttempt
from rota.worker.executors.child_protocol import MessageReader, encode_message
from rota.worker.lease_keeper.pipe import PipeReader, PipeWriter
from rota.worker.outcomes import storable

#: How much of the standard error is kept.
STDERR_TAIL: Final = 4096


class ChildProcess:
    """A process that runs one job at a time."""

    def __init__(
        self,
        on_message: Callable[[ChildProcess, dict[str, Any]], None],
        on_exit: Callable[[ChildProcess], None],
        module: str = "rota.worker.executors.child_main",
    ) -> None:
        self.attempt: RunningAttempt | None = None
        self.jobs = 0
        self.ended = asyncio.Event()
        self.status: int | None = None
        self._on_message = on_message
        self._on_exit = on_exit
        self._messages = MessageReader()
        self._stderr_tail = bytearray()
        self._loop = asyncio.get_running_loop()
        self._start(module)

    def _start(self, module: str) -> None:
        orders_end, orders = os.pipe()
        answers, answers_end = os.pipe()
        stderr, stderr_end = os.pipe()
        command = [sys.executable, "-m", module, str(orders_end), str(answers_end)]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                command,
                stdin=subprocess.DEVNULL,
                stderr=stderr_end,
                pass_fds=(orders_end, answers_end),
                start_new_session=True,
            )
        finally:
            for descriptor in (orders_end, answers_end, stderr_end):
                os.close(descriptor)
        self._orders = PipeWriter(self._loop, orders)
        self._answers = PipeReader(self._loop, answers, self._on_answers, self._on_answers_closed)
        self._stderr = PipeReader(self._loop, stderr, self._on_stderr, lambda: None)
        self._pidfd: int | None = None
        if hasattr(os, "pidfd_open"):
            self._pidfd = os.pidfd_open(self._process.pid)
            self._loop.add_reader(self._pidfd, self._reap)
        self.send({"path": [entry or os.getcwd() for entry in sys.path]})  # noqa: PTH109 - as Python itself reads it

    @property
    def pid(self) -> int:
        """The process id, which is the id of the process group as well."""
        return self._process.pid

    def send(self, message: dict[str, Any]) -> None:
        self._orders.write(encode_message(message))

    def retire(self) -> None:
        """Let the process end by itself once it has nothing to do."""
        self._orders.close()

    def kill(self) -> None:
        """Kill the process and all it started."""
        if self.status is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def death_error(self) -> JobError:
        """Return how the process ended, and the tail of its standard error."""
        status = self.status or 0
        how = f"was killed by {_signal_name(-status)}" if status < 0 else f"ended with exit status {status}"
        tail = storable(self._stderr_tail.decode("utf-8", "replace"), STDERR_TAIL)
        return JobError("ProcessDied", f"the process that ran the handler {how}", tail)

    def _on_answers(self, data: bytes) -> None:
        for message in self._messages.feed(data):
            self._on_message(self, message)

    def _on_stderr(self, data: bytes) -> None:
        self._stderr_tail += data
        del self._stderr_tail[:-STDERR_TAIL]
        with suppress(OSError, ValueError):
            sys.stderr.write(data.decode("utf-8", "replace"))

    def _on_answers_closed(self) -> None:
        """Kill a child that closed its answers: it has ended, or is of no use any more."""
        if self._pidfd is None:
            self._reap()
        else:
            self.kill()

    def _reap(self) -> None:
        if self.status is not None:
            return
        # Until the zombie is reaped its id cannot be reused, so this is surely its own group.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self.status = self._process.wait()
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        # What it wrote before it died is still in the pipes.
        for reader in (self._answers, self._stderr):
            reader.drain()
            reader.close()
        self._orders.close()
        self.ended.set()
        self._on_exit(self)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
