"""Deadlines of one connection: for what its caller sends, and for what its caller reads.

A connection waits for one thing at a time, and has one timer for all of it. What comes in time, as nearly everything
does, only puts off what the timer will see when it rings: a timer for each request would cost more than its head.

Answers are written without waiting. What the system does not take at once is kept here, and from then on the caller has
to take some of it every `write` seconds (`Timeouts`), or the connection is aborted.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from fcntl import ioctl
from termios import TIOCOUTQ
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rota.api.connections import Connections
from rota.api.packing import PackingTransport
from rota.api.rejections import Rejections


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a connection may take for what, and how many there may be."""

    head: timedelta = timedelta(seconds=10)
    body: timedelta = timedelta(seconds=30)
    idle: timedelta = timedelta(seconds=60)
    linger: timedelta = timedelta(seconds=2)
    #: How long a caller may take nothing of its answer.
    write: timedelta = timedelta(seconds=30)
    #: How long requests under way may take to finish when the server stops.
    grace: timedelta = timedelta(seconds=10)
    connections: int = 4_000
    connections_from_one: int = 1_000


class TimedProtocol(HttpToolsProtocol):
    """A connection with deadlines."""

    timeouts = Timeouts()
    registry: ClassVar[Connections]
    rejections: ClassVar[Rejections]
    transport: PackingTransport  # type: ignore[assignment]

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*args, **kwargs)
        #: When what we wait for is late; None while we wait for nothing.
        self._due: float | None = None
        #: Since when we wait, and what is done when it is late.
        self._since = 0.0
        self._late: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0
        #: Whether we wait for another request, and nothing of it has come.
        self._is_idle = False
        self._write_timer: asyncio.TimerHandle | None = None
        self.source = ""

    @property
    def unsent_bytes(self) -> int:
        """How much of its answers the caller has not taken."""
        size: int = self.transport.get_write_buffer_size()
        return size

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers, and let go of what would keep this connection in memory."""
        super().connection_lost(exc)
        self._be_content()
        self._late = self.transport.on_close = None
        for timer in (self._timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._write_timer = None

    def pause_writing(self) -> None:
        """Have more to send than the system takes: from now on the caller has to read."""
        super().pause_writing()
        self.registry.begin_unread(self)  # type: ignore[arg-type]
        if self._write_timer is None and not self.transport.is_closing():
            self._expect_reading()

    def resume_writing(self) -> None:
        """Have sent everything."""
        super().resume_writing()
        self.registry.end_unread(self)  # type: ignore[arg-type]
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def abort(self, reason: str) -> None:
        """Close at once and drop what was not sent."""
        self.rejections.add(reason, self.source)
        self.transport.abort()

    def _expect_reading(self) -> None:
        seconds = self.timeouts.write.total_seconds()
        self._write_timer = self.loop.call_later(seconds, self._check_reading, self._untaken_bytes())

    def _check_reading(self, untaken_before: int) -> None:
        self._write_timer = None
        if self._untaken_bytes() >= untaken_before:
            self.abort("write_timeout")
        else:
            self._expect_reading()

    def _untaken_bytes(self) -> int:
        """Count what the caller's machine has not taken: the system takes more from us only after some megabytes."""
        queued = array("i", [0])
        with suppress(OSError):
            ioctl(self.transport.get_extra_info("socket").fileno(), TIOCOUTQ, queued)
        return self.unsent_bytes + queued[0]

    def _expect(self, seconds: float, late: Callable[[], None]) -> None:
        """Wait for something, but not for ever. It takes the place of what was waited for before."""
        self._since = now = self.loop.time()
        self._due = due = now + seconds
        self._late, self._is_idle = late, False
        if self._timer is None:
            self._set_timer(due)
        elif due < self._rings_at:
            self._timer.cancel()
            self._set_timer(due)

    def _set_timer(self, due: float) -> None:
        self._rings_at = due
        self._timer = self.loop.call_at(due, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._due is None:
            return
        if self._due > self.loop.time():
            # What was waited for came in time, and something else is waited for now.
            self._set_timer(self._due)
        elif self._late is not None:
            self._be_content()
            self._late()

    def _be_content(self) -> None:
        self._due, self._is_idle = None, False
