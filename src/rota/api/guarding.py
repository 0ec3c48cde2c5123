"""Connections: how many, how slow, and how much head a request may have (S15, S16).

uvicorn's protocol reads a request's head for as long and as much as it comes; this one does not. A connection that has
not sent a whole head in time is closed, one whose head grows beyond all measure too, and there are caps for connections
altogether and from one address. A request that was answered before it was sent whole gets a moment to finish, so that
its answer arrives, and no more.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, cast

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from rota.api.calls import PROBLEM
from rota.api.errors import Refusal
from rota.api.packing import PackingTransport
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

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._is_in_head = True
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
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        super().connection_lost(exc)
        self._be_content()
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
        elif self._deadline is None and not self._is_in_head:
            # Most requests come in one piece and never need a timer.
            self._deadline = self.loop.call_later(self.timeouts.body.total_seconds(), self._is_late)

    def on_message_begin(self) -> None:
        """Begin to read a request's head."""
        super().on_message_begin()
        if self._deadline is None:
            self._expect_head()

    def on_headers_complete(self) -> None:
        """Have a request's head."""
        self._is_in_head = False
        self._head_bytes = 0
        self._be_content()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Have answered; whoever is still sending gets a moment to finish."""
        super().on_response_complete()
        if self.cycle.more_body and not self.transport.is_closing():
            self._unset_keepalive_if_required()
            self._be_content()
            self._deadline = self.loop.call_later(self.timeouts.linger.total_seconds(), self.transport.close)

    def on_message_complete(self) -> None:
        """Have a whole request."""
        super().on_message_complete()
        self._is_in_head = True
        self._be_content()
        if self.cycle.response_complete and self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, in the form that all refusals have."""
        self._refuse(Refusal(400, "invalid_http", msg))

    def _expect_head(self) -> None:
        self._deadline = self.loop.call_later(self.timeouts.head.total_seconds(), self._is_late)

    def _is_late(self) -> None:
        self._refuse(Refusal(408, "too_slow", "the request did not arrive in time"))

    def _be_content(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

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
