"""Binary messages between a worker and its lease keeper.

A message is its length, a type, and a body; a lease takes 16 bytes: the job's number and its fence. Both processes run
on one host, so leases are written in the machine's own byte order, all of them in one step. A message of an unknown
type, from a process of another release, is skipped.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from itertools import chain
from typing import Any, Final, cast

import msgspec

from rota.core.ids import JobId

#: A lease, by its job and its fence.
LeaseKey = tuple[JobId, int]
_HEAD: Final = struct.Struct(">IB")
_TIME: Final = struct.Struct(">d")
_GROUP: Final = struct.Struct(">q")


class MessageType(Enum):
    """Types of messages; the numbers are a part of the protocol between releases."""

    #: To the keeper: how to reach the source, and for which worker.
    SETUP = 1
    HOLD = 2
    RELEASE = 3
    #: The worker is alive; without this message the keeper stops renewing after a while.
    ALIVE = 4
    #: Process groups to be killed if the worker dies.
    CHILD_GROUPS = 5
    RENEW_NOW = 6
    NORMAL_END = 7
    #: To the worker: renewed, with the time at which the renewal was sent.
    RENEWED = 8
    CANCEL = 9
    LOST = 10
    #: To the keeper: the id of a claim before it is sent. Jobs may be leased under it that never reach the worker.
    CLAIM_ID = 11
    #: To the keeper: the tokens that prove to an API who holds a lease.
    LEASE_TOKENS = 12


_TYPES: Final = {one.value: one for one in MessageType}


def leases_message(kind: MessageType, keys: Iterable[LeaseKey], sent: float | None = None) -> bytes:
    """Encode a message about leases."""
    time = b"" if sent is None else _TIME.pack(sent)
    return _message(kind, time + array("q", chain.from_iterable(keys)).tobytes())


def setup_message(setup: dict[str, Any]) -> bytes:
    """Encode the first message."""
    return _message(MessageType.SETUP, msgspec.json.encode(setup))


def child_groups_message(pids: Iterable[int]) -> bytes:
    """Encode the process groups of the worker's child processes."""
    return _message(MessageType.CHILD_GROUPS, b"".join(map(_GROUP.pack, pids)))


def claim_id_message(claim_id: str) -> bytes:
    """Encode the id of a claim."""
    return _message(MessageType.CLAIM_ID, claim_id.encode())


def lease_tokens_message(tokens: Mapping[LeaseKey, str]) -> bytes:
    """Encode the tokens of leases."""
    return _message(MessageType.LEASE_TOKENS, msgspec.json.encode([(*key, token) for key, token in tokens.items()]))


def empty_message(kind: MessageType) -> bytes:
    """Encode a message without a body."""
    return _message(kind, b"")


def _message(kind: MessageType, body: bytes) -> bytes:
    return _HEAD.pack(len(body), kind.value) + body


def read_leases(body: bytes) -> list[LeaseKey]:
    numbers = array("q", body)
    return cast("list[LeaseKey]", list(zip(numbers[::2], numbers[1::2], strict=True)))


def read_renewed(body: bytes) -> tuple[float, list[LeaseKey]]:
    """Decode when a renewal was sent, and for which leases."""
    (sent,) = _TIME.unpack_from(body)
    return sent, read_leases(body[_TIME.size :])


def read_child_groups(body: bytes) -> list[int]:
    return [pid for (pid,) in _GROUP.iter_unpack(body)]


def read_claim_id(body: bytes) -> str:
    return body.decode()


def read_lease_tokens(body: bytes) -> dict[LeaseKey, str]:
    rows = msgspec.json.decode(body, type=list[tuple[int, int, str]])
    return {(JobId(job_id), fence): token for job_id, fence, token in rows}


class MessageBuffer:
    """Assembles messages from the pieces that come out of a pipe."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[MessageType, bytes]]:
        """Yield the messages that are complete now."""
        self._buffer += data
        while len(self._buffer) >= _HEAD.size:
            length, number = _HEAD.unpack_from(self._buffer)
            end = _HEAD.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_HEAD.size : end])
            del self._buffer[:end]
            kind = _TYPES.get(number)
            if kind is not None:
                yield kind, body
