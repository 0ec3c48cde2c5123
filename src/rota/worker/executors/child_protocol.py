"""Messages between a worker and its child processes: JSON, each message with its length before it.

Nothing is pickled: what comes out of a pipe is data and stays data.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import msgspec

from rota.core.outcome import Failed, Outcome, Snoozed, Stopped, Succeeded, Suspended, Unknown
from rota.core.settlement import JobError
from rota.worker.outcomes import ErrorPolicy

_LENGTH: Final = struct.Struct(">I")


def encode_message(message: dict[str, Any]) -> bytes:
    """Encode a message with its length."""
    body = msgspec.json.encode(message)
    return _LENGTH.pack(len(body)) + body


class MessageReader:
    """Assembles messages from the pieces that come out of a pipe."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yield the messages that are complete now."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            yield msgspec.json.decode(body)


def encode_outcome(outcome: Outcome, raised: BaseException | None = None) -> dict[str, Any]:
    """Encode the outcome of an attempt, with the names of the classes of the exception raised."""
    match outcome:
        case Succeeded(result):
            return {"result": result}
        case Unknown(error):
            return {"unknown": _error(error)}
        case Snoozed(delay, limit=limit):
            return {"snoozed": delay.total_seconds(), "limit": limit}
        case Suspended(key):
            return {"suspended": key}
        case Failed(error, permanent):
            kinds = [_class_name(kind) for kind in type(raised).__mro__]
            return {"failed": {**_error(error), "permanent": permanent}, "kinds": kinds}
        case _:
            return {"stopped": True}


def decode_outcome(message: dict[str, Any], policy: ErrorPolicy) -> Outcome:
    """Decode an outcome. The error policy of the worker's own registry counts as well, by names of classes."""
    match message:
        case {"result": str(result)}:
            return Succeeded(result)
        case {"unknown": {"kind": kind, "message": text, "traceback": traceback}}:
            return Unknown(JobError(kind, text, traceback))
        case {"snoozed": seconds}:
            return Snoozed(timedelta(seconds=seconds), limit=message.get("limit"))
        case {"suspended": key}:
            return Suspended(key)
        case {
            "failed": {"kind": kind, "message": text, "traceback": traceback, "permanent": permanent},
            "kinds": kinds,
        }:
            is_permanent = permanent or _is_permanent(frozenset(kinds), policy)
            is_of_dependency = not frozenset(kinds).isdisjoint(map(_class_name, policy.dependency_errors))
            return Failed(JobError(kind, text, traceback), permanent=is_permanent, dependency=is_of_dependency)
        case _:
            return Stopped()


def _error(error: JobError) -> dict[str, Any]:
    return {"kind": error.kind, "message": error.message, "traceback": error.traceback}


def _is_permanent(kinds: frozenset[str], policy: ErrorPolicy) -> bool:
    if not kinds.isdisjoint(map(_class_name, policy.give_up_on)):
        return True
    return _class_name(Exception) in kinds and kinds.isdisjoint(map(_class_name, policy.retry_on))


def _class_name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"
