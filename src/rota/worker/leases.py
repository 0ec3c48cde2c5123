"""What a worker and its companion say to each other: which leases, in few bytes.

A message is its length, a letter, and then 16 bytes for each lease: the job's number and its fence. Both live on one
host, so leases go as the machine itself writes numbers, all of them in one step. A word that is not known, since the
other is of another release, is passed over.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import chain
from typing import Any, Final, cast

import msgspec

from rota.core.identity import JobId

#: A lease, by its job and its fence.
Key = tuple[JobId, int]
_HEAD: Final = struct.Struct(">IB")
_MOMENT: Final = struct.Struct(">d")
_GROUP: Final = struct.Struct(">q")


class Word(Enum):
    """What a message says."""

    #: Down: how to reach the source, and whose leases these are.
    SETUP = 1
    HOLD = 2
    LET_GO = 3
    #: The worker lives; without a sign of it the companion does not hold on for ever.
    PULSE = 4
    #: Process groups to be killed if the worker dies.
    KIN = 5
    BEAT_NOW = 6
    GOODBYE = 7
    #: Up: renewed, with the moment the renewal was sent.
    RENEWED = 8
    CANCEL = 9
    LOST = 10
    #: Down: the name of a question, before it is asked. Whatever answers it is the worker's, also if it never hears it.
    ASKED = 11


_WORDS: Final = {word.value: word for word in Word}


def leases_message(word: Word, keys: Iterable[Key], sent: float | None = None) -> bytes:
    """Write a message about leases."""
    moment = b"" if sent is None else _MOMENT.pack(sent)
    return _message(word, moment + array("q", chain.from_iterable(keys)).tobytes())


def setup_message(setup: dict[str, Any]) -> bytes:
    """Write the first message."""
    return _message(Word.SETUP, msgspec.json.encode(setup))


def kin_message(pids: Iterable[int]) -> bytes:
    """Write which process groups belong to the worker."""
    return _message(Word.KIN, b"".join(map(_GROUP.pack, pids)))


def question_message(name: str) -> bytes:
    """Write by which name the worker asks for work."""
    return _message(Word.ASKED, name.encode())


def plain_message(word: Word) -> bytes:
    """Write a message that is only a word."""
    return _message(word, b"")


def _message(word: Word, body: bytes) -> bytes:
    return _HEAD.pack(len(body), word.value) + body


def read_leases(body: bytes) -> list[Key]:
    """Read the leases of a message."""
    numbers = array("q", body)
    return cast("list[Key]", list(zip(numbers[::2], numbers[1::2], strict=True)))


def read_renewed(body: bytes) -> tuple[float, list[Key]]:
    """Read when a renewal was sent, and for which leases."""
    (sent,) = _MOMENT.unpack_from(body)
    return sent, read_leases(body[_MOMENT.size :])


def read_kin(body: bytes) -> list[int]:
    """Read process groups."""
    return [pid for (pid,) in _GROUP.iter_unpack(body)]


def read_question(body: bytes) -> str:
    """Read the name of a question."""
    return body.decode()


class Messages:
    """Puts messages together from what comes out of a pipe."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Word, bytes]]:
        """Give the messages that are complete now."""
        self._buffer += data
        while len(self._buffer) >= _HEAD.size:
            length, number = _HEAD.unpack_from(self._buffer)
            end = _HEAD.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_HEAD.size : end])
            del self._buffer[:end]
            word = _WORDS.get(number)
            if word is not None:
                yield word, body
