"""HTTP answers of limited size and duration, for the command line.

`http.client` by itself waits for each piece of an answer anew and keeps all of them: a server, or whatever answers in
its place, could hold a command for ever or fill its memory. Here the bytes are counted as they come, and each read of
the socket ends at a deadline for the whole answer. The limits are those of the Python client.
"""

from __future__ import annotations

import io
import socket
from http.client import HTTPException, HTTPResponse
from time import monotonic
from typing import TYPE_CHECKING

from rota.sockets import LARGEST_ANSWER, LARGEST_HEAD, LONGEST_SECONDS

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class BoundedResponse(HTTPResponse):
    """An answer that is given up if it is too large or takes too long."""

    def __init__(self, sock: socket.socket, debuglevel: int = 0, method: str | None = None) -> None:
        super().__init__(sock, debuglevel, method)
        self._bounded = _BoundedReader(sock, self.fp.detach())
        self.fp = io.BufferedReader(self._bounded)

    def begin(self) -> None:
        """Read the head."""
        super().begin()
        self._bounded.most = LARGEST_ANSWER

    def read_all(self) -> bytes:
        """Read the body. By a size of ours: whatever length the server claims is allocated at once otherwise."""
        content = self.read(LARGEST_ANSWER + 1)
        # A body that is cut at our size leaves the rest unread.
        if len(content) > LARGEST_ANSWER:
            raise _too_large(len(content))
        return content


class _BoundedReader(io.RawIOBase):
    """Reads from a socket until there are too many bytes or it is too late."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase) -> None:
        super().__init__()
        self._sock, self._raw = sock, raw
        # For the first piece as long as the connection waits for anything.
        self._seconds = sock.gettimeout() or 0.0
        self._until = monotonic() + self._seconds + LONGEST_SECONDS
        self._received = 0
        self.most = LARGEST_HEAD

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read a piece."""
        if self._received > self.most:
            raise _too_large(self._received)
        left = self._until - monotonic()
        # Never 0, which would mean not to wait at all.
        self._sock.settimeout(max(min(self._seconds, left), 0.001))
        try:
            count = self._raw.readinto(buffer) or 0
        except TimeoutError:
            message = "the answer took too long to come" if self._received else f"no answer within {self._seconds:g} s"
            raise TimeoutError(message) from None
        if monotonic() > self._until:
            raise TimeoutError("the answer took too long to come")
        self._received += count
        return count

    def close(self) -> None:
        """Let go of the connection."""
        self._raw.close()
        super().close()


def _too_large(received: int) -> HTTPException:
    return HTTPException(f"the answer is too large: over {received} bytes")
