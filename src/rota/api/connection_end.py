"""The end of a connection: in which order refusals are sent, and how the last answer arrives.

A refusal never takes the place of an answer: requests that came whole before it are answered first. After the last
answer nothing is parsed any more. What the caller still sends is dropped for a moment, so that the answer arrives (a
system that is sent bytes for a closed connection discards what its caller has not read), and then the connection is
closed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from rota.api.calls import PROBLEM
from rota.api.deadlines import TimedProtocol
from rota.api.errors import Refusal
from rota.api.settings import Limits


class EndingProtocol(TimedProtocol):
    """A connection that refuses and ends."""

    limits = Limits()

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*args, **kwargs)
        #: False from the end of a request's head to the end of its body.
        self._is_in_head = True
        #: Whether nothing is parsed any more, and the refusal that follows the answers that are still due.
        self._is_deaf = False
        self._last_words: Refusal | None = None
        self._dropped_bytes = 0

    @property
    def waiting_since(self) -> float | None:
        """When we began to wait for the caller; None while we do not, or owe it an answer."""
        return None if self._due is None or self._is_answering else self._since

    @property
    def _is_answering(self) -> bool:
        """Whether a request that came whole waits for its answer."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return bool(self.pipeline) or (self._is_in_head and cycle is not None and not cycle.response_complete)

    def evict(self, refusal: Refusal) -> None:
        """Close at once, because there are too many connections or bytes."""
        self.rejections.add(refusal.code, self.source)
        is_answered = self._is_deaf or (not self._is_in_head and self.cycle.response_started)
        if not self._is_idle and not is_answered:
            self.transport.write(_written(refusal))
        self._is_deaf, self.transport.on_close = True, None
        self.transport.close()

    def _refuse(self, refusal: Refusal) -> None:
        """Answer with a refusal, behind the answers to all requests that came whole, and close."""
        self.rejections.add(refusal.code, self.source)
        self._be_content()
        self._is_deaf = True
        is_answering = self._is_answering
        if not self._is_in_head and self.pipeline:
            # The refused request itself is the last of those that wait.
            self.pipeline.popleft()
        elif not self._is_in_head:
            if self.cycle.response_started:
                self._end()
                return
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if is_answering:
            self._last_words = refusal
        else:
            self._say(refusal)

    def _say(self, refusal: Refusal) -> None:
        self.transport.write(_written(refusal))
        self._end()

    def _end(self) -> None:
        """Send no more, drop what still comes, and close in a moment: the caller reads its answer meanwhile."""
        self._is_deaf, self.transport.on_close = True, None
        self.transport.flush()
        if self.transport.is_closing():
            return
        self.transport.write_eof()
        self.flow.resume_reading()
        self._expect(self.timeouts.linger.total_seconds(), self.transport.close)

    def _drop(self, data: bytes) -> None:
        self._dropped_bytes += len(data)
        if self._dropped_bytes > self.limits.body_bytes:
            self.flow.pause_reading()


# Cached for the few that a flood is answered with.
@lru_cache(maxsize=16)
def _written(refusal: Refusal) -> bytes:
    body = msgspec.json.encode(refusal.problem())
    head = (
        f"content-type: {PROBLEM}\r\ncontent-length: {len(body)}\r\ncache-control: no-store\r\n"
        "x-content-type-options: nosniff\r\nconnection: close\r\n\r\n"
    )
    return STATUS_LINE[refusal.status] + head.encode() + body
