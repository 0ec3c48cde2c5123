"""What a worker and its child processes say to each other: JSON, each message with its length before it.

Nothing is pickled: what comes out of a pipe is data, and stays data.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import msgspec

_LENGTH: Final = struct.Struct(">I")
#: As much as one read takes from a pipe.
CHUNK: Final = 1 << 16


def frame(message: dict[str, Any]) -> bytes:
    """Write a message."""
    body = msgspec.json.encode(message)
    return _LENGTH.pack(len(body)) + body


class Frames:
    """Puts messages together from what comes out of a pipe, in whatever pieces."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Give the messages that are complete now."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            yield msgspec.json.decode(body)
