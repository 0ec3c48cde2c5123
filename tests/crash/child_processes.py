"""Forks writer processes: a parent that has imported everything forks one writer after another.

Starting Python and importing Rota takes a quarter of a second; a fork takes a few milliseconds. The forker has one
thread and never opens a database, so that a fork of it is as good as a fresh start. It reaps its children only when
asked, so that no process id is reused while a test still wants to kill the process.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from crash.acknowledgements import Line
from crash.writer import Errand, write

_LARGEST_MESSAGE: Final = 1 << 20
_CHUNK: Final = 1 << 16


@dataclass(slots=True, eq=False)
class Child:
    """A writer at work."""

    forker: WriterForker
    errand: Errand
    pid: int
    lines: int
    control: int
    has_ended: bool = False
    #: Output that was not read yet.
    said: deque[Line] = field(default_factory=deque)
    _rest: bytes = b""

    def fileno(self) -> int:
        """Where its lines come from; for `select`."""
        return self.lines

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        os.kill(self.pid, signal.SIGKILL)

    def dismiss(self) -> None:
        """Request it to finish its work, close its store and exit."""
        if self.control >= 0:
            os.close(self.control)
            self.control = -1

    def read(self) -> None:
        """Take in the lines that have come; waits if there are none. A line cut off by death was never said."""
        chunk = os.read(self.lines, _CHUNK)
        self.has_ended = not chunk
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        self.said.extend(json.loads(line) for line in whole)

    def bury(self) -> int:
        """Wait for its end, and say how it ended: 0, or the number of the signal below zero."""
        self.dismiss()
        while not self.has_ended:
            self.read()
        os.close(self.lines)
        self.forker.living.discard(self)
        return self.forker.ask({"reap": self.pid})


@dataclass(slots=True)
class WriterForker:
    """Starts writers, and sees to it that none outlives it."""

    living: set[Child] = field(default_factory=set)
    _channel: socket.socket = field(init=False)
    _process: subprocess.Popen[bytes] = field(init=False)

    def __enter__(self) -> Self:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        self._channel = ours
        self._process = subprocess.Popen(
            [sys.executable, "-m", "crash.child_processes", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )
        theirs.close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for child in list(self.living):
            child.kill()
            child.bury()
        self._channel.close()
        self._process.wait()

    def start(self, errand: Errand) -> Child:
        """Start a writer."""
        lines, theirs_to_write = os.pipe()
        theirs_to_read, control = os.pipe()
        message = json.dumps({"start": errand.to_plain()}).encode()
        socket.send_fds(self._channel, [message], [theirs_to_write, theirs_to_read])
        os.close(theirs_to_write)
        os.close(theirs_to_read)
        child = Child(self, errand, self._answer(), lines, control)
        self.living.add(child)
        return child

    def ask(self, question: dict[str, Any]) -> int:
        self._channel.send(json.dumps(question).encode())
        return self._answer()

    def _answer(self) -> int:
        answer = self._channel.recv(_LARGEST_MESSAGE)
        if not answer:
            raise RuntimeError("the forker has died")
        return int(json.loads(answer))


def listen(children: list[Child], *, within: float) -> Iterator[tuple[Child, Line]]:
    """Return the lines of children as they come, for so many seconds or until all have ended."""
    give_up_at = time.monotonic() + within
    left = within
    while True:
        for child in children:
            while child.said:
                yield child, child.said.popleft()
        living = [child for child in children if not child.has_ended]
        if not living or left < 0:
            return
        left = give_up_at - time.monotonic()
        ready, _, _ = select.select(living, [], [], max(left, 0))
        for child in ready:
            child.read()


def serve(channel: socket.socket) -> None:
    """Fork and reap, until the parent is gone."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, _LARGEST_MESSAGE, 2)
        if not message:
            return
        question = json.loads(message)
        if "start" in question:
            pid = os.fork()
            if pid == 0:
                channel.close()
                _live(Errand.of(question["start"]), *descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            channel.send(json.dumps(pid).encode())
        else:
            _, status = os.waitpid(question["reap"], 0)
            channel.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())


def _live(errand: Errand, lines: int, control: int) -> None:
    """Run a writer, and exit without returning into the forker."""
    try:
        write(errand, lines, control)
    except BaseException:  # noqa: BLE001 - it was reported through the pipe
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
