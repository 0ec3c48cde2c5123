"""Wake-up datagrams: notify another process of this host at once that the claims file has an answer for it.

A waiting process has a Unix datagram socket with an abstract name, which exists as long as the process does; so a
submitter can check beforehand whether the process is alive. Any process of the host may find that name and send to it,
and may take the name once its owner is gone. So a datagram has no content: the receiver reads the claims file.

Failures: a lost datagram only delays. The job is in the database, and the waiting process notices the write to the log.
A process that is woken for nothing again and again listens less often.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from rota.stores.sqlite import fork

_NAME_BYTES: Final = 16
_DATAGRAM: Final = b"."
#: After how many wake-ups for nothing to listen less often, and how often then.
MOST_USELESS: Final = 20
REST_SECONDS: Final = 0.02


def _new_socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)


class WakeupReceiver:
    """Calls `look` on the waiting event loop at each wake-up; `look` returns whether it found an answer."""

    def __init__(self, look: Callable[[], bool]) -> None:
        self._look = look
        self._loop: asyncio.AbstractEventLoop | None = None
        self._useless = 0
        self._buffer = bytearray(len(_DATAGRAM))
        #: A name that begins with NUL is abstract: no file.
        self.address = f"\0rota-{secrets.token_hex(_NAME_BYTES)}"
        self.lock = threading.Lock()
        self._socket: socket.socket | None = _new_socket()
        fork.register(self)
        self._socket.bind(self.address)

    @classmethod
    def open(cls, look: Callable[[], bool]) -> WakeupReceiver | None:
        """Open one; None where the system has no abstract names, or no socket left."""
        if sys.platform != "linux":
            return None
        try:
            return cls(look)
        except OSError:
            return None

    def attach(self) -> None:
        """Receive on the running event loop, from now on."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._detach()
            self._loop = loop
            self._listen()

    def call_soon(self, callback: Callable[..., None], *arguments: object) -> None:
        """Call a function on the waiting event loop, from any thread."""
        # RuntimeError: that loop is closed, and so are its callers.
        with suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(callback, *arguments)

    def close(self) -> None:
        self._detach()
        self.close_after_fork()

    def close_after_fork(self) -> None:
        """Close the socket: a copy in a child would make the parent seem alive as long as the child runs."""
        receiver, self._socket = self._socket, None
        if receiver is not None:
            receiver.close()

    def _listen(self) -> None:
        if self._loop is not None and self._socket is not None:
            self._loop.add_reader(self._socket.fileno(), self._receive)

    def _detach(self) -> None:
        loop, self._loop = self._loop, None
        if loop is None or self._socket is None:
            return
        # The loop may belong to another thread, or be closed.
        with suppress(RuntimeError):
            if loop is _running_loop():
                loop.remove_reader(self._socket.fileno())
            else:
                loop.call_soon_threadsafe(loop.remove_reader, self._socket.fileno())

    def _receive(self) -> None:
        """Take one datagram; the loop calls again for the next."""
        if self._socket is None:
            return
        try:
            self._socket.recv_into(self._buffer)
        except OSError:
            return
        self._useless = 0 if self._look() else self._useless + 1
        if self._useless >= MOST_USELESS and self._loop is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._loop.call_later(REST_SECONDS, self._listen)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class WakeupSender:
    """Wakes other processes. Used by one thread at a time."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    def connect(self, address: str) -> bool:
        """Connect to an address and return whether its process is alive."""
        try:
            if self._socket is None:
                self._socket = _new_socket()
            self._socket.connect(address)
        except OSError as error:
            if error.errno is None:
                raise
            return False
        return True

    def send(self) -> None:
        """Wake the connected process. Errors of the system are ignored: it is only a hint."""
        if self._socket is not None:
            try:
                self._socket.send(_DATAGRAM)
            except OSError as error:
                if error.errno is None:
                    raise

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
