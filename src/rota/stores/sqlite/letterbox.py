"""Letters: how a process of this host is brought an answer, at once and without a look at the database.

Who waits has a socket with a name that the kernel keeps for as long as the process lives; so who brings something finds
out beforehand whether anybody is there. Any process of the host may find that name and write to it. So a letter counts
only if it begins with the secret that stands on the board, which only those can read who may write to the database.

What happens when something fails: a letter that does not arrive is missed by nobody for long. What it tells is in the
database, and whoever waits is rung for by the log.
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

import msgspec

from rota.stores.open_claims import Answer, read_answer
from rota.stores.sqlite.forking import mind

#: The kernel takes more than three times as much. What a job needs more is looked up.
LONGEST_LETTER: Final = 60_000
_BYTES: Final = 16

_write: Final = msgspec.json.Encoder().encode


def letter_of(answer: Answer) -> bytes:
    """Write an answer; without its job if that is long."""
    text = _write(answer)
    return text if len(text) <= LONGEST_LETTER else _write(answer._replace(job=None))


def _new_socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)


class Letterbox:
    """Where the answers for this process come in. `hear` is told of each, on the loop that waits for them."""

    def __init__(self, hear: Callable[[Answer], None]) -> None:
        self._hear = hear
        self._loop: asyncio.AbstractEventLoop | None = None
        self.turn = threading.Lock()
        self._socket: socket.socket | None = _new_socket()
        self.secret = secrets.token_hex(_BYTES)
        self._secret = self.secret.encode()
        #: For letters, made once: room for the longest takes as long to be had as all else that is done with one.
        self._room = memoryview(bytearray(2 * LONGEST_LETTER))
        #: A name that begins so is no file's.
        self.address = f"\0rota-{secrets.token_hex(_BYTES)}"
        self._socket.bind(self.address)
        mind(self)

    @classmethod
    def open(cls, hear: Callable[[Answer], None]) -> Letterbox | None:
        """Make one, where the system has such names."""
        if sys.platform != "linux":
            return None
        try:
            return cls(hear)
        except OSError:
            return None

    def attend(self) -> None:
        """Have letters heard on the loop that runs, from now on."""
        loop = asyncio.get_running_loop()
        if self._loop is loop or self._socket is None:
            return
        self._leave_loop()
        self._loop = loop
        loop.add_reader(self._socket.fileno(), self._take_out)

    def close(self) -> None:
        """Take no more letters."""
        self._leave_loop()
        self.forsake()

    def forsake(self) -> None:
        """Close it, in a forked process: or the parent would seem to be there for as long as the child is."""
        box, self._socket = self._socket, None
        if box is not None:
            box.close()

    def _leave_loop(self) -> None:
        if self._loop is not None and self._socket is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._socket.fileno())
        self._loop = None

    def _take_out(self) -> None:
        """Take one letter out; the loop calls again for the next."""
        if self._socket is None:
            return
        try:
            length = self._socket.recv_into(self._room)
        except OSError:
            return
        if secrets.compare_digest(self._room[: len(self._secret)], self._secret):
            # Of a later release, it says nothing to us: who looks finds it.
            with suppress(msgspec.DecodeError):
                self._hear(read_answer(self._room[len(self._secret) : length]))


class Postman:
    """Brings letters to other processes. Used by one thread at a time."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    def finds(self, address: str) -> bool:
        """Go to an address, and say whether anybody is there."""
        if self._socket is None:
            self._socket = _new_socket()
        try:
            self._socket.connect(address)
        except OSError as error:
            if error.errno is None:
                raise
            return False
        return True

    def deliver(self, secret: str, letter: bytes) -> None:
        """Bring a letter to where somebody was found. A hint: whatever fails, fails."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.send(secret.encode() + letter)

    def close(self) -> None:
        """Go nowhere any more."""
        if self._socket is not None:
            self._socket.close()
