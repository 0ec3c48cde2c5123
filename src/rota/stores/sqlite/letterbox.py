"""Pokes: how a process of this host is told at once that something stands on the board for it.

Who waits has a socket with a name that the kernel keeps for as long as the process lives; so who brings something finds
out beforehand whether anybody is there. Any process of the host may find that name and write to it, and once its
process is gone may take it. So nothing is said by it: who is poked looks at the board.

What happens when something fails: a poke that does not arrive is missed by nobody for long. What was brought is in the
database, and whoever waits is rung for by the log. Who is poked for nothing again and again hears with one ear only.
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

from rota.stores.sqlite.forking import mind

_BYTES: Final = 16
_POKE: Final = b"."
#: After how many pokes for nothing to listen less often, and how often then.
PATIENCE: Final = 20
REST_SECONDS: Final = 0.02


def _new_socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)


class Letterbox:
    """Where this process is poked. `look` is called then, on the loop that waits, and says whether anything came."""

    def __init__(self, look: Callable[[], bool]) -> None:
        self._look = look
        self._loop: asyncio.AbstractEventLoop | None = None
        self._vain = 0
        self._room = bytearray(len(_POKE))
        #: A name that begins so is no file's.
        self.address = f"\0rota-{secrets.token_hex(_BYTES)}"
        self.turn = threading.Lock()
        self._socket: socket.socket | None = _new_socket()
        mind(self)
        self._socket.bind(self.address)

    @classmethod
    def open(cls, look: Callable[[], bool]) -> Letterbox | None:
        """Make one, where the system has such names."""
        if sys.platform != "linux":
            return None
        try:
            return cls(look)
        except OSError:
            return None

    def attend(self) -> None:
        """Have pokes heard on the loop that runs, from now on."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._leave_loop()
            self._loop = loop
            self._listen()

    def soon(self, callback: Callable[..., None], *arguments: object) -> None:
        """Call something on the loop that waits, from any thread."""
        # Closed: nobody waits there any more.
        with suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(callback, *arguments)

    def close(self) -> None:
        """Hear no more."""
        self._leave_loop()
        self.forsake()

    def forsake(self) -> None:
        """Close it, in a forked process: or the parent would seem to be there for as long as the child is."""
        box, self._socket = self._socket, None
        if box is not None:
            box.close()

    def _listen(self) -> None:
        if self._loop is not None and self._socket is not None:
            self._loop.add_reader(self._socket.fileno(), self._poked)

    def _leave_loop(self) -> None:
        loop, self._loop = self._loop, None
        if loop is None or self._socket is None:
            return
        # It may be another thread's, or closed.
        with suppress(RuntimeError):
            if loop is _running_loop():
                loop.remove_reader(self._socket.fileno())
            else:
                loop.call_soon_threadsafe(loop.remove_reader, self._socket.fileno())

    def _poked(self) -> None:
        """Take one poke; the loop calls again for the next."""
        if self._socket is None:
            return
        try:
            self._socket.recv_into(self._room)
        except OSError:
            return
        self._vain = 0 if self._look() else self._vain + 1
        if self._vain >= PATIENCE and self._loop is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._loop.call_later(REST_SECONDS, self._listen)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class Postman:
    """Finds other processes, and pokes them. Used by one thread at a time."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    def finds(self, address: str) -> bool:
        """Go to an address, and say whether anybody is there."""
        try:
            if self._socket is None:
                self._socket = _new_socket()
            self._socket.connect(address)
        except OSError as error:
            if error.errno is None:
                raise
            return False
        return True

    def poke(self) -> None:
        """Poke whoever was found. A hint: whatever fails, fails."""
        if self._socket is not None:
            try:
                self._socket.send(_POKE)
            except OSError as error:
                if error.errno is None:
                    raise

    def close(self) -> None:
        """Go nowhere any more."""
        if self._socket is not None:
            self._socket.close()
