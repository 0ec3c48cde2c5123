"""A pipe's two ends, on a loop.

The writing end takes all it is given, writes what the pipe takes, and keeps the rest for later. The reading end reads
as data comes; or, where who reads is in no hurry, when it is told to, and data alone wakes nobody.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable
from contextlib import suppress

from rota.worker.wire import CHUNK


class PipeWriter:
    """Writes without ever blocking. If the reader is gone, so is what is written; its end is noticed elsewhere."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, descriptor: int, went_on: Callable[[], None] = lambda: None
    ) -> None:
        os.set_blocking(descriptor, False)
        self._loop = loop
        self._descriptor: int | None = descriptor
        self._rest = bytearray()
        #: Called when some of what had to wait was written.
        self._went_on = went_on

    @property
    def is_full(self) -> bool:
        """Whether something waits for room."""
        return bool(self._rest)

    def write(self, data: bytes) -> None:
        """Write, now or as soon as there is room."""
        if self._descriptor is None:
            return
        if not self._rest:
            data = data[self._try(self._descriptor, data) :]
            if data:
                self._loop.add_writer(self._descriptor, self._flush)
        self._rest += data

    def close(self) -> None:
        """Close; what could not be written is dropped."""
        if self._descriptor is not None:
            self._loop.remove_writer(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _flush(self) -> None:
        assert self._descriptor is not None
        del self._rest[: self._try(self._descriptor, bytes(self._rest))]
        if not self._rest:
            self._loop.remove_writer(self._descriptor)
        self._went_on()

    @staticmethod
    def _try(descriptor: int, data: bytes) -> int:
        try:
            return os.write(descriptor, data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)


class PipeReader:
    """Reads as data comes, on a loop, until the other side is gone."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        descriptor: int,
        take: Callable[[bytes], None],
        end: Callable[[], None],
    ) -> None:
        os.set_blocking(descriptor, False)
        self._loop = loop
        self._descriptor: int | None = descriptor
        self._take = take
        self._end = end
        self._listen(descriptor)

    def _listen(self, descriptor: int) -> None:
        self._loop.add_reader(descriptor, self.drain)

    def drain(self) -> None:
        """Read all there is."""
        while self._descriptor is not None:
            try:
                data = os.read(self._descriptor, CHUNK)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.close()
                self._end()
                return
            self._take(data)

    def close(self) -> None:
        """Read no more."""
        if self._descriptor is not None:
            with suppress(ValueError, OSError):
                self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None


class LazyReader(PipeReader):
    """Reads when `drain` is called and when the other side is gone; as data comes where nobody tells of that alone."""

    def _listen(self, descriptor: int) -> None:
        if not hasattr(select, "epoll"):
            super()._listen(descriptor)
            return
        # Asked for nothing, it tells of the end only.
        self._ends = select.epoll()
        self._ends.register(descriptor, 0)
        self._loop.add_reader(self._ends.fileno(), self.drain)

    def close(self) -> None:
        """Read no more."""
        if self._descriptor is not None and hasattr(select, "epoll"):
            self._loop.remove_reader(self._ends.fileno())
            self._ends.close()
        super().close()
