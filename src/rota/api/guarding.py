"""Connections: how many, how slow, and how much head a request may have (S15, S16).

uvicorn's protocol reads a request's head for as long and as much as it comes; this one does not. A connection that has
not sent a whole head in time is closed, one whose head grows beyond all measure too, and there are caps for connections
altogether and from one address. A request that was answered before it was sent whole gets a moment to finish, so that
its answer arrives, and no more.

A connection waits for one thing at a time, and has one timer for all of it. What comes in time, as nearly everything
does, only puts off what the timer will see when it rings: a timer for each request would cost more than its head.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, cast

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from rota.api.calls import PROBLEM
from rota.api.errors import Refusal
from rota.api.packing import PackingTransport
from rota.api.receiving import CYCLE
from rota.api.replying import knows
from rota.api.settings import Limits


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a connection may take for what, and how many there may be."""

    head: timedelta = timedelta(seconds=10)
    body: timedelta = timedelta(seconds=30)
    idle: timedelta = timedelta(seconds=60)
    linger: timedelta = timedelta(seconds=2)
    #: How long requests under way may take to finish when the server stops.
    grace: timedelta = timedelta(seconds=10)
    connections: int = 4_000
    connections_from_one: int = 1_000


class GuardedProtocol(HttpToolsProtocol):
    """One connection. Subclassed for each server, with its limits."""

    timeouts = Timeouts()
    limits = Limits()
    sources: ClassVar[Counter[str]] = Counter()
    can_reply: ClassVar[bool] = knows(RequestResponseCycle)

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*args, **kwargs)
        #: When what we wait for is late, and what is done then; None while we wait for nothing.
        self._due: float | None = None
        self._late: Callable[[], None] = self._is_late
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0
        #: Whether we wait for another request, and nothing of it has come.
        self._is_idle = False
        self._head_bytes = 0
        self._is_in_head = True
        self._has_begun = False
        self._source = ""
        # Both limits together and room for the words between: what is just beyond a limit gets its own answer.
        self._most_head = 2 * (self.limits.header_bytes + self.limits.url_bytes)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count a new connection, and expect a request of it."""
        super().connection_made(cast("asyncio.Transport", PackingTransport(transport, self.loop)))
        self._source = self.client[0] if self.client else ""
        self.sources[self._source] += 1
        total, alike = len(self.connections), self.sources[self._source]
        if total > self.timeouts.connections or alike > self.timeouts.connections_from_one:
            self._refuse(Refusal(429, "too_many_connections", "too many connections are open"))
            return
        self._expect(self.timeouts.head.total_seconds(), self._is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        super().connection_lost(exc)
        self._be_content()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.sources[self._source] -= 1
        if not self.sources[self._source]:
            del self.sources[self._source]

    def data_received(self, data: bytes) -> None:
        """Read on, unless the head has no end."""
        if self._is_in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._is_in_head and self._head_bytes > self._most_head and not self.transport.is_closing():
            self._refuse(Refusal(431, "headers_too_large", "the head of the request is too large"))
        elif self._due is None and not self.transport.is_closing():
            # Most requests come in one piece, and nothing has to be waited for.
            if not self._is_in_head:
                self._expect(self.timeouts.body.total_seconds(), self._is_late)
            elif self._has_begun:
                self._expect(self.timeouts.head.total_seconds(), self._is_late)

    def on_message_begin(self) -> None:
        """Begin to read a request's head."""
        super().on_message_begin()
        self._has_begun = True
        # Only now: an empty line is no request, and whoever sends nothing else rests.
        if self._is_idle:
            self._be_content()

    def on_headers_complete(self) -> None:
        """Have a request's head."""
        self._is_in_head = self._has_begun = False
        self._head_bytes = 0
        self._due = None
        super().on_headers_complete()
        if self.can_reply:
            # The application has not begun: that is for the loop's next turn.
            self.scope[CYCLE] = self.cycle  # type: ignore[typeddict-unknown-key]

    def on_response_complete(self) -> None:
        """Have answered: go on with the next request, or expect one; whoever is still sending has to finish."""
        if self.pipeline or self.transport.is_closing():
            # What was answered came whole, and the next one has a time of its own if it did not.
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        if self.cycle.more_body:
            self._expect(self.timeouts.linger.total_seconds(), self.transport.close)
        elif self._due is None:
            self._be_idle()

    def on_message_complete(self) -> None:
        """Have a whole request."""
        super().on_message_complete()
        self._is_in_head = True
        self._due = None
        if self.cycle.response_complete:
            self._be_idle()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, in the form that all refusals have."""
        self._refuse(Refusal(400, "invalid_http", msg))

    def _be_idle(self) -> None:
        self._expect(self.timeout_keep_alive, self.timeout_keep_alive_handler)
        self._is_idle = True

    def _expect(self, seconds: float, late: Callable[[], None]) -> None:
        """Wait for something, but not for ever. It takes the place of what was waited for before."""
        self._due = due = self.loop.time() + seconds
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
        else:
            self._be_content()
            self._late()

    def _is_late(self) -> None:
        self._refuse(Refusal(408, "too_slow", "the request did not arrive in time"))

    def _be_content(self) -> None:
        self._due, self._is_idle = None, False

    def _refuse(self, refusal: Refusal) -> None:
        self._be_content()
        body = msgspec.json.encode(refusal.problem())
        head = (
            f"content-type: {PROBLEM}\r\ncontent-length: {len(body)}\r\ncache-control: no-store\r\n"
            "x-content-type-options: nosniff\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(STATUS_LINE[refusal.status] + head.encode() + body)
        self.transport.close()


def guarded(limits: Limits, timeouts: Timeouts) -> type[GuardedProtocol]:
    """Make the protocol of one server."""
    return type("ServerProtocol", (GuardedProtocol,), {"limits": limits, "timeouts": timeouts, "sources": Counter()})
