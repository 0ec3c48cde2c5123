"""Sending a head and its body together.

uvicorn writes them one after the other, and the loop hands each to the system at once: two calls and two packets for an
answer, and the other side wakes up twice. Sent together, they let one process answer about a tenth more requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class PackingTransport:
    """A transport that keeps what is written until more is, or until this turn of the loop is over."""

    __slots__ = ("_kept", "_loop", "_transport", "is_closing", "on_close")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._kept: bytes | None = None
        #: Asked at every answer: found here at once.
        self.is_closing = transport.is_closing
        #: Called instead of closing, once all that was written is handed over.
        self.on_close: Callable[[], None] | None = None

    def write(self, data: bytes) -> None:
        """Send this soon, with what comes next if it comes now. No more than one piece is ever kept."""
        if self._kept is None:
            self._kept = data
            self._loop.call_soon(self.flush)
        else:
            kept, self._kept = self._kept, None
            self._transport.write(kept + data)

    def send(self, data: bytes) -> None:
        """Send this now, which is a whole answer, behind what was kept."""
        kept, self._kept = self._kept, None
        self._transport.write(data if kept is None else kept + data)

    def flush(self) -> None:
        """Send what was kept."""
        kept, self._kept = self._kept, None
        if kept is not None:
            self._transport.write(kept)

    def close(self) -> None:
        """Close, once all that was written is sent."""
        self.flush()
        if self.on_close is None:
            self._transport.close()
        else:
            self.on_close()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a transport has
        """Be the transport otherwise."""
        return getattr(self._transport, name)
