"""The two ends of a pipe on an event loop.

The writing end accepts all data, writes what the pipe takes, and keeps the rest for later. The reading end reads as
data comes, or (`LazyReader`) only when `drain` is called, so that data alone does not wake the process.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable
from contextlib import suppress
from typing import Final

#: How many bytes one read takes from a pipe.
READ_BYTES: Final = 1 << 16


class PipeWriter:
    """Writes without blocking. If the reader is gone, the data is dropped; the caller notices its end elsewhere."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, descriptor: int, on_flush: Callable[[], None] = lambda: None
    ) -> None:
        os.set_blocking(descriptor, False)
        self._loop = loop
        self._descriptor: int | None = descriptor
        self._rest = bytearray()
        #: Called when some of the data that had to wait was written.
        self._on_flush = on_flush

    @property
    def is_full(self) -> bool:
        """Whether some data waits for room in the pipe."""
        return bool(self._rest)

    def write(self, data: bytes) -> None:
        """Write now, or as soon as there is room."""
        if self._descriptor is None:
            return
        if not self._rest:
            data = data[self._try(self._descriptor, data) :]
            if data:
                self._loop.add_writer(self._descriptor, self._flush)
        self._rest += data

    def close(self) -> None:
        """Close; unwritten data is dropped."""
        if self._descriptor is not None:
            self._loop.remove_writer(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _flush(self) -> None:
        assert self._descriptor is not None
        del self._rest[: self._try(self._descriptor, bytes(self._rest))]
        if not self._rest:
            self._loop.remove_writer(self._descriptor)
        self._on_flush()

    @staticmethod
    def _try(descriptor: int, data: bytes) -> int:
        try:
            return os.write(descriptor, data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)


class PipeReader:
    """Reads data as it comes, until the writer is gone."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        descriptor: int,
        on_data: Callable[[bytes], None],
        on_end: Callable[[], None],
    ) -> None:
        os.set_blocking(descriptor, False)
        self._loop = loop
        self._descriptor: int | None = descriptor
        self._on_data = on_data
        self._on_end = on_end
        self._listen(descriptor)

    def _listen(self, descriptor: int) -> None:
        self._loop.add_reader(descriptor, self.drain)

    def drain(self) -> None:
        """Read all there is."""
        while self._descriptor is not None:
            try:
                data = os.read(self._descriptor, READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.close()
                self._on_end()
                return
            self._on_data(data)

    def close(self) -> None:
        if self._descriptor is not None:
            with suppress(ValueError, OSError):
                self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None


class LazyReader(PipeReader):
    """Reads when `drain` is called and when the writer is gone. Without epoll it reads data as it comes."""

    def _listen(self, descriptor: int) -> None:
        if not hasattr(select, "epoll"):
            super()._listen(descriptor)
            return
        # Registered for no event, epoll reports only the end.
        self._ends = select.epoll()
        self._ends.register(descriptor, 0)
        self._loop.add_reader(self._ends.fileno(), self.drain)

    def close(self) -> None:
        if self._descriptor is not None and hasattr(select, "epoll"):
            self._loop.remove_reader(self._ends.fileno())
            self._ends.close()
        super().close()
