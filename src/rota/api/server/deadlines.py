"""Deadlines and the end of one connection.

Deadlines: a connection waits for one thing at a time, and has one timer for all of it. Input that arrives in time, as
nearly all does, only moves the deadline that the timer compares when it fires: a timer for each request would cost more
than parsing its head. Responses are written without waiting. From the moment the system does not take everything at
once, the caller has to read some of it every `Timeouts.write` seconds, or the connection is aborted.

The end: an error never replaces a response. Requests that arrived whole before it are answered first. After the last
response nothing is parsed any more. Input that still arrives is discarded for a moment, so that the response reaches
the caller (a system that receives data for a closed socket discards what the caller has not read), and then the
connection is closed.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from fcntl import ioctl
from functools import lru_cache
from termios import TIOCOUTQ
from typing import Any, ClassVar, cast

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from rota.api.errors import HttpError
from rota.api.http import PROBLEM
from rota.api.limits import RejectionCounts
from rota.api.server.connections import ConnectionRegistry
from rota.api.server.fast_io import CoalescingTransport
from rota.api.settings import Limits


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits of a connection, and the largest number of connections."""

    head: timedelta = timedelta(seconds=10)
    body: timedelta = timedelta(seconds=30)
    idle: timedelta = timedelta(seconds=60)
    linger: timedelta = timedelta(seconds=2)
    #: How long a caller may read nothing of its response.
    write: timedelta = timedelta(seconds=30)
    #: How long requests under way may take to finish when the server stops.
    grace: timedelta = timedelta(seconds=10)
    connections: int = 4_000
    connections_from_one: int = 1_000


class DeadlineProtocol(HttpToolsProtocol):
    """A connection with deadlines."""

    timeouts = Timeouts()
    registry: ClassVar[ConnectionRegistry]
    rejections: ClassVar[RejectionCounts]
    transport: CoalescingTransport  # type: ignore[assignment]

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*args, **kwargs)
        #: None while the connection waits for nothing.
        self._deadline: float | None = None
        self._wait_began = 0.0
        self._on_late: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        #: Whether the next request is awaited, and nothing of it has arrived.
        self._is_idle = False
        self._write_timer: asyncio.TimerHandle | None = None
        self.source = ""

    @property
    def unsent_bytes(self) -> int:
        """How much of its responses the system has not taken."""
        size: int = self.transport.get_write_buffer_size()
        return size

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers, and drop the references that would keep this connection in memory."""
        super().connection_lost(exc)
        self._stop_waiting()
        self._on_late = self.transport.on_close = None
        for timer in (self._timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._write_timer = None

    def pause_writing(self) -> None:
        """Start the deadline for reading: the system does not take everything at once."""
        super().pause_writing()
        self.registry.begin_unread(self)  # type: ignore[arg-type]
        if self._write_timer is None and not self.transport.is_closing():
            self._start_write_timer()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.registry.end_unread(self)  # type: ignore[arg-type]
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def abort(self, reason: str) -> None:
        """Close at once and drop what was not sent."""
        self.rejections.add(reason, self.source)
        self.transport.abort()

    def _start_write_timer(self) -> None:
        seconds = self.timeouts.write.total_seconds()
        self._write_timer = self.loop.call_later(seconds, self._check_reading, self._unread_bytes())

    def _check_reading(self, unread_before: int) -> None:
        self._write_timer = None
        if self._unread_bytes() >= unread_before:
            self.abort("write_timeout")
        else:
            self._start_write_timer()

    def _unread_bytes(self) -> int:
        """Count what the caller's machine has not taken, with what the kernel holds: it takes megabytes ahead."""
        queued = array("i", [0])
        with suppress(OSError):
            ioctl(self.transport.get_extra_info("socket").fileno(), TIOCOUTQ, queued)
        return self.unsent_bytes + queued[0]

    def _wait_for(self, seconds: float, on_late: Callable[[], None]) -> None:
        """Set the deadline of this connection. It replaces the one before."""
        self._wait_began = now = self.loop.time()
        self._deadline = deadline = now + seconds
        self._on_late, self._is_idle = on_late, False
        if self._timer is None:
            self._set_timer(deadline)
        elif deadline < self._timer_at:
            self._timer.cancel()
            self._set_timer(deadline)

    def _set_timer(self, at: float) -> None:
        self._timer_at = at
        self._timer = self.loop.call_at(at, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        if self._deadline > self.loop.time():
            # The input arrived in time, and a later deadline was set since.
            self._set_timer(self._deadline)
        elif self._on_late is not None:
            self._stop_waiting()
            self._on_late()

    def _stop_waiting(self) -> None:
        self._deadline, self._is_idle = None, False


class ClosingProtocol(DeadlineProtocol):
    """A connection that sends errors in order and closes without losing the last response."""

    limits = Limits()

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*args, **kwargs)
        #: False from the end of a request's head to the end of its body.
        self._is_in_head = True
        #: Whether input is discarded unparsed, and the error to send behind the responses that are still due.
        self._discards_input = False
        self._final_error: HttpError | None = None
        self._discarded_bytes = 0

    @property
    def waiting_since(self) -> float | None:
        """When the server began to wait for the caller; None while it does not, or owes it a response."""
        return None if self._deadline is None or self._is_answering else self._wait_began

    @property
    def _is_answering(self) -> bool:
        """Whether a request that arrived whole has no response yet."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return bool(self.pipeline) or (self._is_in_head and cycle is not None and not cycle.response_complete)

    def evict(self, error: HttpError) -> None:
        """Close at once, because there are too many connections or bytes."""
        self.rejections.add(error.code, self.source)
        is_answered = self._discards_input or (not self._is_in_head and self.cycle.response_started)
        if not self._is_idle and not is_answered:
            self.transport.write(_error_bytes(error))
        self._discards_input, self.transport.on_close = True, None
        self.transport.close()

    def _refuse(self, error: HttpError) -> None:
        """Send an error behind the responses to all requests that arrived whole, and close."""
        self.rejections.add(error.code, self.source)
        self._stop_waiting()
        self._discards_input = True
        is_answering = self._is_answering
        if not self._is_in_head and self.pipeline:
            # The refused request itself is the last one in the pipeline.
            self.pipeline.popleft()
        elif not self._is_in_head:
            if self.cycle.response_started:
                self._finish()
                return
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if is_answering:
            self._final_error = error
        else:
            self._send_error(error)

    def _send_error(self, error: HttpError) -> None:
        self.transport.write(_error_bytes(error))
        self._finish()

    def _finish(self) -> None:
        """Send no more, discard what still arrives, and close in a moment: the caller reads its response meanwhile."""
        self._discards_input, self.transport.on_close = True, None
        self.transport.end()
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        self._wait_for(self.timeouts.linger.total_seconds(), self.transport.close)

    def _discard(self, data: bytes) -> None:
        self._discarded_bytes += len(data)
        if self._discarded_bytes > self.limits.body_bytes:
            self.flow.pause_reading()


# Cached for the few errors that a flood of connections gets.
@lru_cache(maxsize=16)
def _error_bytes(error: HttpError) -> bytes:
    body = msgspec.json.encode(error.problem())
    head = (
        f"content-type: {PROBLEM}\r\ncontent-length: {len(body)}\r\ncache-control: no-store\r\n"
        "x-content-type-options: nosniff\r\nconnection: close\r\n\r\n"
    )
    return STATUS_LINE[error.status] + head.encode() + body
